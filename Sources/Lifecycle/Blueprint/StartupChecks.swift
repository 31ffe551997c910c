internal import Cryptography
internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import Policy
internal import Registry
internal import RegistryPostgreSQL
internal import TLS

/// Checks of what a conf file names, before anything starts: TLS, certificates, and the files that the gateway writes.
struct StartupChecks {
    private let blueprint: Blueprint

    init(_ blueprint: Blueprint) { self.blueprint = blueprint }

    // MARK: - TLS

    /// Builds every TLS context once and discards it, so that an invalid certificate is found before anything starts.
    ///
    /// - Returns: The certificates, and doubtful settings that do not prevent the start.
    func tls() throws(StartupError) -> ([CertificateExpiry], warnings: [StartupWarning]) {
        let library: LibraryContext
        do throws(CryptographyError) { library = try LibraryContext() } catch { throw StartupError(error.description) }
        let sessions = SessionTable(limit: 1)
        var known: [CertificateExpiry] = []
        var warnings: [StartupWarning] = []
        if let federation = blueprint.federation {
            known += federation.certificates
            warnings += federation.warnings
        }
        if let enrolment = blueprint.enrolment {
            known += enrolment.certificates
            warnings += enrolment.warnings
        }
        known += try CertificateExpiry.all(of: blueprint.upstreams, library)
        for listener in blueprint.listeners {
            for host in listener.allHosts {
                _ = try host.makeContext(library, sessions)
                let chain = try host.certificates.certificates(host.place, library)
                warnings += host.warnings(of: chain)
                known += chain.map { CertificateExpiry($0, role: .server, listener: listener.name, host: host.label) }
            }
            _ = try listener.forwarded?.make(library)
            for (host, clients) in listener.allClients {
                warnings += clients.listWarnings
                for file in clients.authorities {
                    let certificates = try file.certificates(clients.place, library)
                    warnings += clients.warnings(ofAuthorities: certificates, in: file)
                    known += certificates.map {
                        CertificateExpiry($0, role: .authority, listener: listener.name, host: host)
                    }
                }
            }
            try listener.checkSeparation(library)
        }
        return (known, try warnings + unnamedHosts(library))
    }

    /// Returns warnings for hosts of routes that are not in the certificate by which they are served: clients refuse
    /// such connections. Names of a listener's `hosts` are checked with their own certificates.
    private func unnamedHosts(_ library: LibraryContext) throws(StartupError) -> [StartupWarning] {
        var warnings: [StartupWarning] = []
        var checked: Set<String> = []
        for route in blueprint.routes {
            let name = String(decoding: route.host, as: UTF8.self)
            guard !Self.isAddress(name), checked.insert(name).inserted else { continue }
            var strange: HostBlueprint?
            var isNamed = false
            for listener in blueprint.listeners
            where !listener.hosts.contains(where: { $0.names.contains { $0.text == name } }) {
                guard let host = listener.standard else { continue }
                let chain = try host.certificates.certificates(host.place, library)
                if chain.first?.isGood(forHost: name) ?? true { isNamed = true }
                strange = strange ?? host
            }
            guard let strange, !isNamed else { continue }
            let file = strange.certificates
            let subject = "the certificate does not contain the name \(name) of the route `\(route.name)`"
            warnings.append(StartupWarning("\(strange.place): \(file.path): \(subject)", of: file.subject))
        }
        return warnings
    }

    /// Returns whether the host of a route is an address: the last label of a name has a letter.
    private static func isAddress(_ host: String) -> Bool {
        host.hasPrefix("[") || host.allSatisfy { $0 == "." || $0.isNumber }
    }

    // MARK: - Certificates

    /// Returns warnings for certificates that are not valid now. These are not errors: a restart must not fail because
    /// of a date.
    static func certificateWarnings(_ configuration: Configuration) throws(StartupError) -> [StartupWarning] {
        let library: LibraryContext
        do throws(CryptographyError) { library = try LibraryContext() } catch { throw StartupError(error.description) }
        var warnings: [StartupWarning] = []
        for (place, path, section) in configuration.certificateFiles {
            do {
                for certificate in try Certificate.all(inPEM: try FileContents.read(path), library) {
                    guard let fault = fault(of: certificate) else { continue }
                    warnings.append(
                        StartupWarning(
                            "\(place): \(path): the certificate of \(certificate.subject) \(fault)",
                            of: .file(path).within(section)))
                }
            } catch {
                throw StartupError(in: "\(place): \(path)", error, of: .file(path), section: section)
            }
        }
        return warnings
    }

    /// Returns what is wrong with the dates of a certificate; unreadable dates count as expired.
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

    // MARK: - Files that the gateway writes

    /// Checks that the files of the registry can be used, without opening its store, which a running gateway may have
    /// open.
    func registry() throws(StartupError) {
        guard let registry = blueprint.registry else { return }
        _ = try GatewaySecrets.read(registry.secretPath)
        var paths = [registry.secretPath, registry.revocationsPath]
        switch registry.store {
        case .file(let path): paths.insert(path, at: 0)
        case .postgresql(let database):
            _ = try PostgreSQLSettings.readPassword(database)
            try PostgreSQLSettings.checkTLS(database)
        }
        for path in paths {
            if let objection = Self.objection(toUsing: path) {
                throw StartupError("registry: \(objection)", of: .file(path))
            }
        }
        let journal = registry.revocationsPath
        var status = stat()
        guard lstat(journal, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw StartupError(
                "registry: revocations: \(journal): not a regular file but, for example, a link or a directory: name the file itself",
                of: .file(journal))
        }
    }

    func statusListCopy() throws(StartupError) {
        guard let path = blueprint.enrolment?.statusListCopyPath, let objection = Self.objection(toUsing: path) else {
            return
        }
        throw StartupError("enrolment: android: status_list: copy: \(objection)", of: .file(path))
    }

    func accessLog() throws(StartupError) {
        guard case .file(let path) = blueprint.configuration.log.access else { return }
        var objection = Self.isThere(path) ? nil : Self.objection(toMaking: path)
        if Self.isThere(path), Glibc.access(path, W_OK) != 0 { objection = "\(path): this user cannot write it" }
        if let objection { throw StartupError("log: access: \(objection)", of: .file(path)) }
    }

    /// Warnings if a part of the registry is missing: `run` refuses that unless an option permits it.
    var registryWarnings: [StartupWarning] {
        guard let registry = blueprint.registry, case .file(let path) = registry.store else { return [] }
        let journal = registry.revocationsPath
        if !Self.isThere(path), !Self.isThere(journal), !Self.isThere(journal + ".mark"),
            Self.isThere(registry.secretPath)
        {
            return [
                StartupWarning(
                    "the registry \(path) is missing, but its secret \(registry.secretPath) exists: `run` will refuse to start "
                        + "without devices; restore a backup with `attestgate registry import`", of: .file(path))
            ]
        }
        switch (Self.isThere(path), Self.isThere(journal), Self.isThere(journal + ".mark")) {
        case (false, true, _), (false, _, true):
            return [
                StartupWarning(
                    "the registry \(path) is missing, but its revocation journal or commit mark exists: `run` will refuse to start "
                        + "without devices; restore a backup with `attestgate registry import`", of: .file(path))
            ]
        case (true, false, true):
            return [
                StartupWarning(
                    "the revocation journal \(journal) is missing, but the registry and its commit mark exist: `run` will "
                        + "refuse to start, because revocations would be lost", of: .file(journal))
            ]
        case (true, _, _) where !Self.isThere(registry.secretPath):
            return [
                StartupWarning(
                    "the secret \(registry.secretPath) is missing, but the registry exists: `run` will refuse to create a new one, "
                        + "unless the registry has no devices", of: .file(registry.secretPath))
            ]
        default: return []
        }
    }

    private static func isThere(_ path: String) -> Bool { Glibc.access(path, F_OK) == 0 }

    /// Returns why a file cannot be used together with files beside it.
    private static func objection(toUsing path: String) -> String? {
        if let objection = objection(toMaking: path) { return objection }
        let isGood = !isThere(path) || Glibc.access(path, R_OK | W_OK) == 0
        return isGood ? nil : "\(path): this user cannot read and write it"
    }

    private static func objection(toMaking path: String) -> String? {
        let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        return Glibc.access(directory, W_OK | X_OK) == 0 ? nil : "\(directory): this user cannot create files in it"
    }
}

extension Configuration {
    /// The certificate files that this process uses, each with its purpose and its section, always in the same order.
    fileprivate var certificateFiles: [(place: String, path: String, section: Place?)] {
        var files: [(String, String, Place?)] = []
        func add(_ name: String, _ paths: [String?], _ section: Place?) {
            files += paths.compactMap(\.self).map { (name, $0, section) }
        }
        if role.servesRequests {
            for listener in listeners {
                let name = "listener \(listener.address)"
                add(name, [listener.tls?.certificatePath], listener.tls?.place)
                add(name, listener.clients?.authoritiesPaths ?? [], listener.clients?.place)
                for host in listener.hosts {
                    let name = "\(name), host \(host.names.first ?? "")"
                    add(name, [host.tls.certificatePath], host.tls.place)
                    add(name, host.clients.authoritiesPaths, host.clients.place)
                }
                if let forwarded = listener.forwardedCertificate?.clients {
                    add("\(name), forwarded_certificate", forwarded.authoritiesPaths, forwarded.place)
                }
            }
            for (name, upstream) in upstreams.sorted(by: { $0.key < $1.key }) {
                guard let tls = upstream.tls else { continue }
                add("upstream \(name)", [tls.identity?.certificatePath] + tls.authoritiesPaths, tls.place)
            }
            for (name, point) in decisionPoints.sorted(by: { $0.key < $1.key }) {
                guard let tls = point.tls else { continue }
                add("decision point \(name)", [tls.identity?.certificatePath] + tls.authoritiesPaths, tls.place)
            }
        }
        if role.enrols, let enrolment {
            add("enrolment", [enrolment.tls.certificatePath], enrolment.tls.place)
            add("enrolment", [enrolment.authority.certificatePath], enrolment.authority.place)
            if let devices = enrolment.devices {
                add("enrolment, devices", [devices.tls.certificatePath], devices.tls.place)
                add("enrolment, devices", devices.clients.authoritiesPaths, devices.clients.place)
            }
            add("enrolment", apps.map(\.rootPath), nil)
        }
        if role.federates, let federation {
            add("federation", [federation.tls.certificatePath], federation.tls.place)
            if let clients = federation.clients { add("federation", clients.authoritiesPaths, clients.place) }
        }
        for listener in administration?.listeners ?? [] {
            let paths = [listener.tls?.certificatePath] + (listener.tls?.authoritiesPaths ?? [])
            add("administration listener \(listener.address)", paths, listener.place)
        }
        return files
    }
}
