internal import Glibc

/// Asks the file system whether a file that the conf file names can be used. Tests put their own answers here.
public struct FileInspector: Sendable {
    /// What speaks against reading the file at this path: "No such file or directory". Nothing if it is there, is
    /// readable and has something in it.
    let objection: @Sendable (String) -> String?
    /// What speaks against making a file at this path, or opening the one that is there. Nothing if its directory is
    /// there and it is none itself.
    let makingObjection: @Sendable (String) -> String?
    /// What speaks against keeping a secret in the file at this path. Nothing if its owner alone may read and write it.
    let privacyObjection: @Sendable (String) -> String?
    /// Where files that the conf file includes come from.
    var library = SourceLibrary.system

    public init(
        objection: @escaping @Sendable (String) -> String?,
        makingObjection: @escaping @Sendable (String) -> String? = { _ in nil },
        privacyObjection: @escaping @Sendable (String) -> String? = { _ in nil }
    ) {
        self.objection = objection
        self.makingObjection = makingObjection
        self.privacyObjection = privacyObjection
    }

    /// The real file system.
    public static let system = FileInspector(
        objection: { path in
            switch FileReader.read(path, atMost: 1) {
            case .success(let bytes): bytes.isEmpty ? "it is empty" : nil
            case .failure(let reason): reason.text
            }
        },
        makingObjection: { path in
            let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
            return switch FileReader.isDirectory(directory) {
            case .failure(let reason): "its directory: \(reason.text)"
            case .success(false): "its directory: it is not a directory"
            case .success(true): FileReader.isDirectory(path) == .success(true) ? "it is a directory" : nil
            }
        },
        privacyObjection: FileReader.exposure)
}

extension Kind where Value == String {
    /// A file that must be there, readable and not empty; the path is resolved. What is in it is for others to judge.
    static func file(_ what: String) -> Kind {
        path(what) { path, reading in reading.objection(toFile: path) }
    }

    /// The same, with a secret in it: nobody but its owner may read or write it.
    static func secretFile(_ what: String) -> Kind {
        path(what + ", mode 0600") { path, reading in
            reading.objection(toFile: path) ?? reading.objection(toSecretIn: path)
        }
    }

    /// A secret file with the private key of a certificate.
    static func keyFile(_ what: String) -> Kind {
        let file = secretFile(what)
        return Kind(expected: file.expected, shape: file.shape) { item, reading in
            guard let path = file.read(item, reading) else { return nil }
            reading.mention(.privateKey(path), at: item.place)
            return path
        }
    }

    /// A file that need not be there, in a directory that must; the path is resolved.
    static func fileToMake(_ what: String) -> Kind {
        path(what) { path, reading in reading.objection(toMaking: path) }
    }

    private static func path(
        _ what: String, _ objection: @escaping @Sendable (String, Reading) -> String?
    ) -> Kind {
        Kind(expected: what, shape: .text(pattern: nil)) { item, reading in
            guard let text = item.text else {
                reading.refuse(item.place, "found \(item.summary)", expected: what)
                return nil
            }
            guard !text.isEmpty else {
                reading.refuse(item.place, "the path is empty", expected: what)
                return nil
            }
            let path = reading.resolve(path: text, at: item.place)
            reading.mention(.file(path), at: item.place)
            if let objection = objection(path, reading) {
                // What a shell would have put in their place.
                let isShell = text.contains("$") || text.hasPrefix("~")
                let hint = isShell ? "; `$` and `~` are not expanded" : ""
                reading.refuse(
                    item.place, "the file \(Printable.quoted(path)) cannot be used: \(objection)\(hint)", expected: what
                )
                return nil
            }
            return path
        }
    }
}

extension FileInspector {
    /// Takes every file for good: for those who need what the conf file says, and not what it refers to.
    public static let unquestioned = FileInspector(objection: { _ in nil })
}
