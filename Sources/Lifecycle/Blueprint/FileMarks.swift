internal import GatewayConfiguration
internal import Glibc

/// The states of files, which show changes without reading the files.
struct FileMarks: Equatable, Sendable {
    let paths: [String]
    private let marks: [Mark?]

    private struct Mark: Equatable {
        let device: UInt64
        let inode: UInt64
        let size: Int64
        let modified: Int64
        let changed: Int64

        /// Nil if the file does not exist or is not accessible.
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

    /// Takes the present states.
    init(_ paths: [String]) {
        self.paths = paths
        marks = paths.map { Mark($0) }
    }

    /// The present states of the same files.
    var renewed: FileMarks { FileMarks(paths) }
}

/// Decides when changed files are read: once they stay the same between two checks, because certificate and key are
/// two files, and one of them may be half written.
struct FileWatch {
    /// The states at the last attempt to read.
    private var known: FileMarks
    private var changed: FileMarks?

    init(_ known: FileMarks) {
        self.known = known
    }

    /// Returns whether to read the files now. Invalid files are not read again until one of them changes.
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
    /// The files that the gateway reads again when they change: the conf file with those it includes, and those of
    /// listeners, upstreams, tracing, enrolment, federation and administration, as far as this process uses them. Not the
    /// registry's secret, which changes in steps that depend on each other.
    ///
    /// Symbolic links are followed, so a mounted folder that is exchanged by a link, as in Kubernetes, is a change.
    var watchedFiles: [String] {
        var files = sources
        if role.servesRequests {
            files += listeners.flatMap(\.files) + upstreamFiles
            files += [deviceTokens?.keysPath, clientAttestations?.keysPath, sessionSecretsPath].compactMap(\.self)
        }
        if role.servesRequests, let tracing {
            files += [tracing.endpoint.isEncrypted ? tracing.authoritiesPath : nil, tracing.tokenPath].compactMap(
                \.self)
        }
        if role.enrols, let enrolment {
            files += enrolment.files + apps.flatMap(\.files)
            // Only what a fetch uses: a list in a file is read by its own schedule.
            let android = enrolment.android
            if android.statusListCopyPath(for: apps) != nil { files.append(android.statusList.authoritiesPath) }
        }
        if role.federates, let federation {
            files += federation.tls.files + (federation.clients?.authoritiesPaths ?? [])
            files += (federation.clients?.revocationListsPaths ?? []) + [federation.services.authoritiesPath]
            files += [federation.operatorsPath].compactMap(\.self)
        }
        return files + (administration?.listeners.flatMap(\.files) ?? [])
    }
}

extension Configuration {
    /// Always in the same order.
    private var upstreamFiles: [String] {
        let points = decisionPoints.sorted { $0.key < $1.key }.map(\.value)
        let all = upstreams.sorted { $0.key < $1.key }.compactMap(\.value.tls) + points.compactMap(\.tls)
        return all.flatMap { tls in
            tls.authoritiesPaths + (tls.identity.map { [$0.certificatePath, $0.keyPath] } ?? [])
        } + points.compactMap(\.tokenPath)
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
        switch admission {
        case .token(let token):
            if case .files(let paths) = token.keys { files += paths } else { files.append(token.authoritiesPath) }
        case .card(let card): files += card.authoritiesPaths
        case .open, .approval: break
        }
        if let receipts { files += [receipts.keyPath, receipts.authoritiesPath] }
        if let deviceTokens { files.append(deviceTokens.keyPath) }
        if let wallet {
            files += [wallet.keyPath] + [wallet.certificatePath, wallet.statementPath].compactMap(\.self)
        }
        return files
    }
}

extension AdministrationListenerConfiguration {
    fileprivate var files: [String] {
        let own = tls.map { [$0.certificatePath, $0.keyPath] + ($0.authoritiesPaths ?? []) }
        return [tokenPath].compactMap(\.self) + (own ?? [])
    }
}
