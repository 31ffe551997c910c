internal import Cryptography

/// Says ahead, and once, that something of the configuration ends: a certificate, a revocation list. And once more when it has.
struct ExpiryWatch {
    struct Item: Hashable {
        /// For people: "listener 127.0.0.1:8443: the revocation list of CN=GMS CA".
        let name: String
        /// In seconds since 1970.
        let end: Int64
        /// How many seconds before it is time to say so.
        let lead: Int64
    }

    private enum Stage: Int {
        case ending
        case ended
    }

    private var said: [Item: Stage] = [:]

    /// - Parameter items: all current items; an item that is left out is forgotten and would be reported again.
    /// - Returns: what has not been said yet.
    mutating func news(of items: [Item], at now: Int64) -> [String] {
        var stages: [Item: Stage] = [:]
        var news: [String] = []
        for item in items where stages[item] == nil && item.end - item.lead <= now {
            let stage: Stage = item.end <= now ? .ended : .ending
            stages[item] = stage
            guard said[item] != stage else { continue }
            news.append(
                stage == .ended ? "\(item.name) has ended" : "\(item.name) ends in \(Self.text(of: item.end - now))")
        }
        said = stages
        return news
    }

    /// In the largest unit of which there are two.
    private static func text(of seconds: Int64) -> String {
        for (unit, name) in [(86_400, "days"), (3_600, "hours"), (60, "minutes")] as [(Int64, String)]
        where seconds >= 2 * unit {
            return "\(seconds / unit) \(name)"
        }
        return "\(seconds) s"
    }
}

extension Blueprint {
    /// What ends by itself, and takes somebody who renews it in time.
    var expiries: [ExpiryWatch.Item] {
        let certificates = certificates.map { certificate in
            ExpiryWatch.Item(
                name: "\(certificate.place): the certificate of \(certificate.subject)",
                end: certificate.notAfter, lead: Self.certificateLead)
        }
        let lists = listeners.flatMap(\.allHosts).flatMap { host in
            host.revocationLists.map { list in
                // Lists are renewed well before: a quarter of the life is late, whether that is an hour or a week.
                ExpiryWatch.Item(
                    name: "\(host.place): the revocation list of \(list.issuer)", end: list.nextUpdate,
                    lead: max(0, list.nextUpdate - list.thisUpdate) / 4)
            }
        }
        return certificates + lists + staples.map(Self.expiry)
    }

    /// Responses are fetched again when half their life is over: half of the rest is late.
    private static func expiry(of staple: (listener: String, host: String?, response: StapledResponse))
        -> ExpiryWatch.Item
    {
        let place = "listener \(staple.listener)" + (staple.host.map { ", host \($0)" } ?? "")
        return ExpiryWatch.Item(
            name: "\(place): the stapled OCSP response for \(staple.response.subject)",
            end: staple.response.nextUpdate,
            lead: max(0, staple.response.nextUpdate - staple.response.thisUpdate) / 4)
    }

    /// Two weeks.
    private static let certificateLead: Int64 = 14 * 86_400
}
