/// Suggestions for misspelt names: of settings, their values, and on command lines.
package enum Spelling {
    /// The maximum length of a word. Longer words are no misspelt keys, and take long to compare.
    private static let longest = 64

    /// Names from other programs that differ too much from ours for a comparison of letters.
    private static let names = [
        "warn": "warning", "http2": "h2", "http/2": "h2", "http/2.0": "h2", "none": "nothing", "public": "nothing",
        "required": "always", "secp256r1": "p256", "prime256v1": "p256", "secp384r1": "p384", "secp521r1": "p521",
        "rsa": "rsa2048",
    ]

    /// Returns the nearest candidate, if at most a third of its letters, and at least one, differ.
    package static func nearest(to word: String, among candidates: [String]) -> String? {
        guard word.utf8.count <= longest else { return nil }
        if let meant = names[word.lowercased()], candidates.contains(meant) { return meant }
        let letters = Array(word.lowercased())
        var best: (candidate: String, distance: Int)?
        for candidate in candidates {
            let distance = distance(letters, Array(candidate.lowercased()))
            let allowed = max(1, max(letters.count, candidate.count) / 3)
            if distance <= allowed, distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.candidate
    }

    /// Returns the optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours count
    /// one.
    package static func distance(_ from: [Character], _ to: [Character]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...to.count)
        for row in from.indices {
            var current = [row + 1]
            for column in to.indices {
                let replaced = last[column] + (from[row] == to[column] ? 0 : 1)
                var cost = min(replaced, last[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0, from[row] == to[column - 1], from[row - 1] == to[column] {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            beforeLast = last
            last = current
        }
        return last[to.count]
    }
}
