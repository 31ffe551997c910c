internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration

/// What listeners tell of their certificates.
extension Blueprint {
    /// - Parameter certificates: in PEM, leaf first.
    /// - Returns: nil if nothing is to be stapled.
    /// - Throws: if a client would not believe it even in its time.
    static func staple(
        _ tls: ListenerConfiguration.TLS, for certificates: [UInt8]
    ) throws -> StapledResponse? {
        guard let path = tls.responsePath else { return nil }
        let file = try FileContents.read(path)
        let library = try LibraryContext()
        let chain: [Certificate]
        do throws(CryptographyError) { chain = try Certificate.all(inPEM: certificates, library) } catch {
            throw StartupError("\(tls.certificatePath): \(error)", of: .file(tls.certificatePath))
        }
        do throws(CryptographyError) {
            return try StapledResponse(der: file, for: chain, at: WallClock.seconds, library)
        } catch {
            throw StartupError("\(path): \(error)", of: .file(path))
        }
    }

    /// - Returns: a warning if the response is not handed out now, or if clients that obey the must-staple extension
    ///   will refuse the certificate.
    static func missingStaple(_ chain: [Certificate], _ staple: StapledResponse?) -> [String] {
        if let staple {
            guard !staple.isFresh(at: WallClock.seconds) else { return [] }
            let fault = staple.nextUpdate <= WallClock.seconds ? "stale" : "not yet valid"
            return ["the OCSP response for \(staple.subject) is \(fault) and is not stapled"]
        }
        guard let leaf = chain.first, leaf.demandsStaple else { return [] }
        return [
            "the certificate of \(leaf.subject) requires a stapled OCSP response (must-staple), "
                + "but there is no `ocsp_response`"
        ]
    }

    /// All that are stapled, each with the names of its listener and, if it has several, its host.
    var staples: [(listener: String, host: String?, response: StapledResponse)] {
        let own = listeners.flatMap { listener in listener.allHosts.map { (listener.name, $0.label, $0.staple) } }
        let all = own + [enrolment].compactMap { $0 }.map { ($0.name, nil, $0.staple) }
        return all.compactMap { name, host, staple in staple.map { (name, host, $0) } }
    }
}
