internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration

/// Whether the certificates that the conf file names are good now. Those that are not are no reason not to start: a restart must
/// not fail because of a date that nobody looked at.
extension Blueprint {
    static func validityWarnings(_ configuration: Configuration) throws(StartupError) -> [StartupWarning] {
        let library: LibraryContext
        do throws(CryptographyError) { library = try LibraryContext() } catch { throw StartupError(error.description) }
        var warnings: [StartupWarning] = []
        for (place, path) in configuration.certificateFiles {
            do {
                for certificate in try Certificate.all(inPEM: try FileContents.read(path), library) {
                    guard let fault = fault(of: certificate) else { continue }
                    warnings.append(
                        StartupWarning(
                            "\(place): \(path): the certificate of \(certificate.subject) \(fault)",
                            of: .file(path)))
                }
            } catch {
                throw StartupError(in: "\(place): \(path)", error, of: .file(path))
            }
        }
        return warnings
    }

    /// One whose dates cannot be read counts as over.
    private static func fault(of certificate: Certificate) -> String? {
        let now = WallClock.seconds
        guard let notAfter = certificate.notAfter, notAfter > now else {
            return certificate.notAfter.map { "has expired, \(age(of: now - $0)) ago" }
                ?? "has an unreadable expiry date"
        }
        guard let notBefore = certificate.notBefore, notBefore > now else { return nil }
        return "is not valid yet: it becomes valid in \(age(of: notBefore - now))"
    }

    private static func age(of seconds: Int64) -> String {
        for (unit, name) in [(86_400, "day"), (3_600, "hour"), (60, "minute")] as [(Int64, String)]
        where seconds >= unit {
            let count = seconds / unit
            return "\(count) \(name)\(count == 1 ? "" : "s")"
        }
        return "less than a minute"
    }
}

extension Configuration {
    /// The files of certificates that this process uses, each with what it is for, in one order.
    fileprivate var certificateFiles: [(place: String, path: String)] {
        var files: [(String, String)] = []
        if role.servesRequests {
            for listener in listeners {
                let name = "listener \(listener.address)"
                files += (([listener.tls.certificatePath] + listener.clients.authoritiesPaths).map { (name, $0) })
                for host in listener.hosts {
                    let name = "\(name), host \(host.names.first ?? "")"
                    files += (([host.tls.certificatePath] + host.clients.authoritiesPaths).map { (name, $0) })
                }
            }
            for (name, upstream) in upstreams.sorted(by: { $0.key < $1.key }) {
                guard let tls = upstream.tls else { continue }
                let paths = [tls.identity?.certificatePath].compactMap(\.self) + tls.authoritiesPaths
                files += paths.map { ("upstream \(name)", $0) }
            }
        }
        if role.enrols, let enrolment {
            let paths =
                [enrolment.tls.certificatePath, enrolment.authority.certificatePath]
                + apps.compactMap(\.attestation.rootPath)
            files += paths.map { ("enrolment", $0) }
        }
        for listener in administration?.listeners ?? [] {
            let paths = [listener.tls?.certificatePath].compactMap(\.self) + (listener.tls?.authoritiesPaths ?? [])
            files += paths.map { ("administration listener \(listener.address)", $0) }
        }
        return files
    }
}
