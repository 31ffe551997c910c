internal import GatewayConfiguration
internal import Glibc

/// By what a change of files is noticed, without reading them.
struct FileMarks: Equatable, Sendable {
    let paths: [String]
    private let marks: [Mark?]

    private struct Mark: Equatable {
        let device: UInt64
        let inode: UInt64
        let size: Int64
        let modified: Int64
        let changed: Int64

        /// Nil if there is no such file now, or it cannot be looked at.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (device, inode, size) = (UInt64(status.st_dev), UInt64(status.st_ino), Int64(status.st_size))
            modified = Self.nanoseconds(status.st_mtim)
            changed = Self.nanoseconds(status.st_ctim)
        }

        private static func nanoseconds(_ time: timespec) -> Int64 {
            Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
        }
    }

    /// Looks at the files now.
    init(_ paths: [String]) {
        self.paths = paths
        marks = paths.map { Mark($0) }
    }

    /// The same files, looked at now.
    var renewed: FileMarks { FileMarks(paths) }
}

/// When changed files are to be read: once they have stayed as they are from one look to the next, for certificate and key are
/// two files, and one of them may be half written.
struct FileWatch {
    /// As they were when they were last read, or that was tried.
    private var known: FileMarks
    private var changed: FileMarks?

    init(_ known: FileMarks) {
        self.known = known
    }

    /// - Returns: whether to read them now. Files that turn out bad are not read again until one changes.
    mutating func shouldRead(_ now: FileMarks) -> Bool {
        guard now != known else {
            changed = nil
            return false
        }
        guard now == changed else {
            changed = now
            return false
        }
        known = now
        changed = nil
        return true
    }
}

extension Configuration {
    /// Files that the gateway reads again when they change: certificates, keys and what belongs to them, for everything
    /// that this process does. Not the registry's secret, which changes in steps that wait for each other.
    var watchedFiles: [String] {
        var files: [String] = []
        if role.servesRequests { files += listeners.flatMap(\.files) + upstreamFiles }
        if role.servesRequests, let tracing {
            files += [tracing.endpoint.isEncrypted ? tracing.authoritiesPath : nil, tracing.tokenPath].compactMap(
                \.self)
        }
        if role.enrols, let enrolment { files += enrolment.files + apps.compactMap(\.attestation.rootPath) }
        return files + (administration?.listeners.flatMap(\.files) ?? [])
    }
}

extension Configuration {
    /// In one order, however often it is asked for.
    private var upstreamFiles: [String] {
        upstreams.sorted { $0.key < $1.key }.compactMap(\.value.tls).flatMap { tls in
            tls.authoritiesPaths + (tls.identity.map { [$0.certificatePath, $0.keyPath] } ?? [])
        }
    }
}

extension ListenerConfiguration {
    var files: [String] {
        allTLS.flatMap(\.files) + allClients.flatMap { $0.authoritiesPaths + $0.revocationListsPaths }
    }
}

extension ListenerConfiguration.TLS {
    fileprivate var files: [String] { [certificatePath, keyPath] + [responsePath].compactMap(\.self) }
}

extension EnrolmentConfiguration {
    fileprivate var files: [String] {
        var files = tls.files + [authority.certificatePath, authority.keyPath]
        if case .file(let path) = authority.passphrase { files.append(path) }
        if case .token(let token) = admission { files += token.keysPaths }
        if let receipts { files += [receipts.keyPath, receipts.authoritiesPath] }
        return files
    }
}

extension AdministrationListenerConfiguration {
    fileprivate var files: [String] {
        let own = tls.map { [$0.certificatePath, $0.keyPath] + ($0.authoritiesPaths ?? []) }
        return [tokenPath].compactMap(\.self) + (own ?? [])
    }
}
