internal import Bytes
internal import Cryptography
internal import HTTP
internal import Registry

/// The fields that describe the device to an upstream. Fields of these names that a client sent were removed before.
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
        // Sixteen digits at a time: of thirty-two octets each would cost a call.
        for start in stride(from: 0, to: 32, by: 8) {
            var octets: UInt64 = 0
            for index in start..<start + 8 { octets = octets << 8 | UInt64(pseudonym.span[index]) }
            output.append(hex: octets, digits: 16)
        }
        output.append("\r\nAttest-App: ")
        output.append(app)
        output.append("\r\nAttest-Platform: ")
        output.append(platform.rawValue)
        output.append("\r\n")
        if let counter { output.appendField("Attest-Counter", decimal: UInt64(counter)) }
    }
}
