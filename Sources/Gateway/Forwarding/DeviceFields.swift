internal import Bytes
internal import Cryptography
internal import HTTP
internal import Registry

/// What an upstream is told about the device whose request it serves. Fields of these names that a client sent were taken
/// out before.
struct DeviceFields {
    /// HMAC-SHA-256 of the key id under a key of this upstream alone.
    let pseudonym: Digest256
    /// The app id's text.
    let app: [UInt8]
    let platform: Platform
    /// Of the proof; nil where the route demands none.
    let counter: UInt32?

    func append(to output: inout ByteBuffer) {
        output.append("Attest-Device: ")
        for index in pseudonym.span.indices { output.append(hex: UInt64(pseudonym.span[index]), digits: 2) }
        output.append("\r\nAttest-App: ")
        output.append(app)
        output.append("\r\nAttest-Platform: ")
        output.append(platform.rawValue)
        output.append("\r\n")
        if let counter { output.appendField("Attest-Counter", decimal: UInt64(counter)) }
    }
}
