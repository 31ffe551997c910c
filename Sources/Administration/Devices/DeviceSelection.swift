internal import Foundation
public import Registry
public import Vocabulary

/// A device as an operator names it.
public enum DeviceSelection: Equatable, Sendable {
    case number(DeviceID)
    /// The key id of its hardware key, or of a certificate key that is or was bound to it.
    case key(KeyID)

    /// - Parameter text: a device number, or a key id in base64, base64url without padding, or hexadecimal.
    public init?(_ text: String) {
        if let number = Int64(text), String(number) == text {
            guard let id = DeviceID(number) else { return nil }
            self = .number(id)
        } else if let key = Self.key(text) {
            self = .key(key)
        } else {
            return nil
        }
    }

    private static func key(_ text: String) -> KeyID? {
        // KeyID is written in lower case; a fingerprint copied from elsewhere may not be.
        let lowercase = text.lowercased()
        if lowercase.utf8.count == 64 {
            guard let octets = Hexadecimal.decode(lowercase) else { return nil }
            return KeyID(digest: octets.span)
        }
        let base64 = text.replacing("-", with: "+").replacing("_", with: "/") + (text.utf8.count == 43 ? "=" : "")
        guard let data = Data(base64Encoded: base64), data.base64EncodedString() == base64 else { return nil }
        let octets = Array(data)
        return KeyID(digest: octets.span)
    }

    /// As it stands in a path, where base64 itself would bring in slashes.
    var segment: String {
        switch self {
        case .number(let id): id.description
        case .key(let key):
            key.base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        }
    }
}

extension KeyID {
    var base64: String { Data(bytes).base64EncodedString() }
}
