import Foundation

/// Test vectors that are not part of the project, because their licences differ: genuine attestation data, and the
/// examples of RFCs. They are looked for in `shared/vectors` beside the project's folder.
public enum SharedVectors {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("shared/vectors")

    /// Whether the file is there. Says so once per test that is skipped for it.
    public static func has(_ path: String) -> Bool {
        let file = folder.appendingPathComponent(path).path
        if FileManager.default.isReadableFile(atPath: file) { return true }
        print("skipped: no \(path) in shared/vectors beside the project's folder")
        return false
    }

    /// Reads a JSON file. Empty where the file is absent, so that parameterised tests can name it in their arguments.
    public static func read<Value: Decodable>(_ type: Value.Type, _ path: String) throws -> Value? {
        let file = folder.appendingPathComponent(path)
        guard FileManager.default.isReadableFile(atPath: file.path) else { return nil }
        return try JSONDecoder().decode(type, from: Data(contentsOf: file))
    }

    /// Reads a file.
    public static func bytes(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(path)))
    }
}
