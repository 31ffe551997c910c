internal import Cryptography
internal import Gateway
internal import TLS
internal import Vocabulary

/// What handshakes with one client certificate would come to at the listeners of a configuration.
public struct ClientCertificateTrial: Sendable {
    /// The result at one listener, or at one of its hosts.
    public struct Verdict: Sendable {
        public let isAccepted: Bool
        /// Its place and the reason.
        public let text: String
    }

    /// In the order of the conf file, each listener before its hosts.
    public let verdicts: [Verdict]

    public var isAccepted: Bool { verdicts.contains(where: \.isAccepted) }

    /// Verifies a certificate at each listener and host, by the verifier of the handshake; behind a proxy, as a
    /// certificate that it states. The registry is not asked.
    ///
    /// - Parameters:
    ///   - path: a PEM file: the certificate, then those that its client sends with it.
    ///   - blueprint: the configuration.
    /// - Throws: if the file cannot be read, or is no certificate.
    public init(ofFile path: String, at blueprint: Blueprint) throws(StartupError) {
        do {
            let library = try LibraryContext()
            let chain = try Certificate.all(inPEM: try FileContents.read(path), library)
            let sessions = SessionTable(limit: 1)
            var verdicts: [Verdict] = []
            for listener in blueprint.listeners {
                for host in listener.allHosts where listener.forwarded == nil {
                    let context = try host.makeContext(library, sessions)
                    verdicts.append(Verdict(try context.trust.verify(chain), at: host.place))
                }
                if let forwarded = listener.forwarded {
                    verdicts.append(Verdict(try forwarded.make(library).verify(chain), at: forwarded.clients.place))
                }
            }
            self.verdicts = verdicts
        } catch {
            throw StartupError(in: path, error)
        }
    }
}

extension ClientCertificateTrial.Verdict {
    fileprivate init(_ result: Result<ClientIdentity, ClientCertificateFault>, at place: String) {
        switch result {
        case .success(let identity):
            isAccepted = true
            let key = identity.keyID.map { "key id \($0)" } ?? "its key is not on P-256, so it is of no device"
            let condition = identity.kind == .selfSigned ? ", if its key is bound to a registered device" : ""
            text = "\(place): accepted\(condition) (\(key))"
        case .failure(let fault):
            isAccepted = false
            let row = Denial(fault.kind).row
            let alert = if case .alert(let alert) = row.answer { ", alert \(alert.name)" } else { "" }
            text = "\(place): refused with \(row.code)\(alert): \(fault.reason)"
        }
    }
}
