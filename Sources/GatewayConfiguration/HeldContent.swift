/// Content that is collected is held until it is judged, so no route that does so may admit more than can be held.
enum HeldContent {
    /// - Parameter root: as written, for the places.
    static func check(_ routes: [RouteConfiguration], _ limits: LimitsConfiguration, in root: Item, _ reading: Reading)
    {
        for (index, route) in routes.enumerated()
        where route.require == .requestProof && route.body == .collect && route.contentLimit > limits.heldContent {
            // Every route that was read stands in the file at its place.
            guard let item = root["routes"]?.elements[index] else { continue }
            reading.refuse(
                item.place(of: "content_limit"),
                "`content_limit` (\(SizeText.format(route.contentLimit))) is larger than `held_content` of `limits`"
                    + " (\(SizeText.format(limits.heldContent)))",
                expected:
                    "at most \(SizeText.format(limits.heldContent)), because content is held until its proof is verified,"
                    + " or `body: stream`")
        }
    }
}
