/// Asks the file system whether a file that the conf file names can be used. Tests put their own answer here.
public struct FileInspector: Sendable {
    /// What speaks against reading the file at this path: "No such file or directory". Nothing if it is there, is
    /// readable and has something in it.
    let objection: @Sendable (String) -> String?

    public init(objection: @escaping @Sendable (String) -> String?) {
        self.objection = objection
    }

    /// The real file system.
    public static let system = FileInspector { path in
        switch FileReader.read(path, atMost: 1) {
        case .success(let bytes): bytes.isEmpty ? "it is empty" : nil
        case .failure(let reason): reason.text
        }
    }
}

extension Kind where Value == String {
    /// A file that must be there, readable and not empty; the path is resolved. What is in it is for others to judge.
    static func file(_ what: String) -> Kind {
        Kind(expected: what) { item, reading in
            guard let text = item.text else {
                reading.refuse(item.place, "found \(item.summary)", expected: what)
                return nil
            }
            guard !text.isEmpty else {
                reading.refuse(item.place, "the path is empty", expected: what)
                return nil
            }
            let path = reading.resolve(path: text)
            if let objection = reading.objection(toFile: path) {
                reading.refuse(
                    item.place, "the file \(Printable.quoted(path)) cannot be used: \(objection)", expected: what)
                return nil
            }
            return path
        }
    }
}
