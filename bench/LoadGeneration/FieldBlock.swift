internal import CNghttp2
internal import TrustClient

/// Fields in one array, as nghttp2 is to be given them. Kept for its room, where each request has others.
struct FieldBlock: Sendable {
    private var bytes: [UInt8] = []
    /// Of each field: where its name ends in `bytes`, and where its value does.
    private var ends: [(name: Int, value: Int)] = []

    mutating func append(_ name: String, _ value: String) {
        append(Array(name.utf8), Array(value.utf8))
    }

    private mutating func append(_ name: [UInt8], _ value: [UInt8]) {
        bytes += name
        let nameEnd = bytes.count
        bytes += value
        ends.append((nameEnd, bytes.count))
    }

    /// Becomes the fields of a request.
    mutating func set(_ request: LoadRequest) {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
        bytes += request.template.fields.bytes
        ends += request.template.fields.ends
        guard let proof = request.proof else { return }
        if let digest = proof.contentDigest { append(Self.contentDigest, digest) }
        if let counter = proof.counter { append(Self.counter, counter) }
        append(Self.signatureInput, proof.signatureInput)
        append(Self.signature, proof.signature)
    }

    /// Fills `entries`, which are valid within `body` alone.
    mutating func withEntries(_ entries: inout [nghttp2_nv], _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void) {
        entries.removeAll(keepingCapacity: true)
        bytes.withUnsafeMutableBufferPointer { bytes in
            // There are pseudo-fields at least.
            guard let base = bytes.baseAddress else { return }
            var start = 0
            for end in ends {
                entries.append(
                    nghttp2_nv(
                        name: base + start, value: base + end.name, namelen: end.name - start,
                        valuelen: end.value - end.name, flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)))
                start = end.value
            }
            entries.withUnsafeBufferPointer(body)
        }
    }

    private static let contentDigest = Array("content-digest".utf8)
    private static let counter = Array("attest-proof-counter".utf8)
    private static let signatureInput = Array("signature-input".utf8)
    private static let signature = Array("signature".utf8)
}
