import Cryptography
import Encoding
import Enrolment

/// libFuzzer's entry: the JSON of the enrolment endpoints.
///
/// Properties: nothing traps; the same bytes have the same outcome; what is read is UTF-8 within all bounds, and rewritten
/// it is read as the same; no beginning of it is an object; a request that is admitted has all that it must have.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzEnrolmentJSON(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: count))
    let first = read(bytes)
    precondition(first == read(bytes), "the same bytes have two outcomes")
    initialization(bytes)
    guard case .success(let object) = first else { return 0 }
    precondition(String(validating: bytes, as: UTF8.self) != nil)
    check(.object(object), depth: 1)
    precondition(read(written(.object(object))) == first, "rewritten it has another meaning")
    if let last = bytes.lastIndex(of: UInt8(ascii: "}")) {
        precondition(read(Array(bytes[..<last])) != first, "its end is not needed")
    }
    return 0
}

private func read(_ bytes: [UInt8]) -> Result<JSONObject, JSONFault> {
    do throws(JSONFault) {
        return .success(try JSONReader.object(in: bytes, longest: RequestContent.lengthLimit))
    } catch {
        return .failure(error)
    }
}

private func check(_ value: JSONValue, depth: Int) {
    switch value {
    case .object(let object):
        precondition(depth <= JSONReader.depthLimit && object.members.count <= JSONReader.countLimit)
        precondition(Set(object.members.map(\.name)).count == object.members.count, "a name is there twice")
        for member in object.members { check(member.value, depth: depth + 1) }
    case .array(let elements):
        precondition(depth <= JSONReader.depthLimit && elements.count <= JSONReader.countLimit)
        for element in elements { check(element, depth: depth + 1) }
    case .text(let text): precondition(String(validating: text, as: UTF8.self) != nil)
    case .integer, .number, .boolean, .null: break
    }
}

private func written(_ value: JSONValue) -> [UInt8] {
    switch value {
    case .object(let object):
        let members = object.members.map { written(.text($0.name)) + [UInt8(ascii: ":")] + written($0.value) }
        return Array("{".utf8) + members.joined(separator: [UInt8(ascii: ",")]) + Array("}".utf8)
    case .array(let elements):
        return Array("[".utf8) + elements.map(written).joined(separator: [UInt8(ascii: ",")]) + Array("]".utf8)
    case .text(let text):
        var bytes = [UInt8(ascii: "\"")]
        for byte in text {
            if byte < 0x20 {
                bytes += Array((byte < 16 ? "\\u000" : "\\u00").utf8) + Array(String(byte, radix: 16).utf8)
            } else {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
                bytes.append(byte)
            }
        }
        return bytes + [UInt8(ascii: "\"")]
    case .integer(let integer): return Array("\(integer)".utf8)
    case .number: return Array("0.5".utf8)
    case .boolean(let boolean): return Array("\(boolean)".utf8)
    case .null: return Array("null".utf8)
    }
}

/// Kept from one input to the next. libFuzzer has one thread.
nonisolated(unsafe) private let library: LibraryContext = {
    do throws(CryptographyError) { return try LibraryContext() } catch { fatalError("\(error)") }
}()

private func initialization(_ bytes: [UInt8]) {
    do throws(EnrolmentFault) {
        let request = try InstanceInitialization(bytes, library)
        precondition(request.nonce.bytes.count >= 16)
        let form: ClientDataFormat = request.mtlsPublicKey == nil ? .nonceAndTag : .dsr
        switch request.attestation {
        case .apple(let attestation, _):
            precondition(!attestation.isEmpty)
            _ = try request.evidence(form, library)
        case .android(_, let tag):
            precondition((16...64).contains(tag.count))
            if request.mtlsPublicKey == nil { _ = try request.evidence(form, library) }
        }
    } catch {
        precondition(!error.reason.isEmpty)
        precondition(error.error == .badRequest || error.error == .validation, "parsing found \(error)")
    }
}
