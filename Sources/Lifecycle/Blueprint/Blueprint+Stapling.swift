internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration

/// What listeners tell of their certificates.
extension Blueprint {
    /// - Parameter certificates: in PEM, leaf first.
    /// - Returns: nil if nothing is to be stapled.
    /// - Throws: if a client would not believe it now.
    static func staple(
        _ tls: ListenerConfiguration.TLS, for certificates: [UInt8]
    ) throws -> StapledResponse? {
        guard let path = tls.responsePath else { return nil }
        let file = try FileContents.read(path)
        let library = try LibraryContext()
        let chain: [Certificate]
        do throws(CryptographyError) { chain = try Certificate.all(inPEM: certificates, library) } catch {
            throw StartupError("\(tls.certificatePath): \(error)")
        }
        do throws(CryptographyError) {
            return try StapledResponse(der: file, for: chain, at: WallClock.seconds, library)
        } catch {
            throw StartupError("\(path): \(error)")
        }
    }

    /// - Returns: a warning if clients that heed the certificate will refuse it.
    static func missingStaple(_ chain: [Certificate], _ staple: StapledResponse?) -> [String] {
        guard staple == nil, let leaf = chain.first, leaf.demandsStaple else { return [] }
        return [
            "the certificate of \(leaf.subject) says that clients are to refuse it without a stapled response (must-staple), "
                + "and there is no `ocsp_response`"
        ]
    }

    /// All that are stapled, each with its listener's name.
    var staples: [(listener: String, response: StapledResponse)] {
        let all = listeners.map { ($0.name, $0.staple) } + [enrolment].compactMap { $0 }.map { ($0.name, $0.staple) }
        return all.compactMap { name, staple in staple.map { (name, $0) } }
    }
}
