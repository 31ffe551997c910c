import Attestation
import TestVectors
import Testing

/// The examples of RFC 8949 itself.
@Suite("The examples of RFC 8949")
struct CBORVectorTests {
    private static let examples = "cbor/appendix_a.json"
    private static let notWellFormed = "cbor/rfc8949-appendix-f-not-well-formed.json"

    private struct Example: Decodable {
        var hex: String
    }

    private struct NotWellFormed: Decodable {
        var vectors: [Example]
    }

    /// Which of appendix A's well-formed examples are refused, and why each may be: App Attest has none of it, and what
    /// nobody needs is only a place to hide in.
    private static let stricter: [(fault: CBORFault, why: String, examples: [String])] = [
        (
            .unsupportedType, "tags: bignums, dates, URIs, encoded CBOR",
            [
                "c249010000000000000000", "c349010000000000000000",
                "c074323031332d30332d32315432303a30343a30305a", "c11a514b67b0", "c1fb41d452d9ec200000",
                "d74401020304", "d818456449455446",
                "d82076687474703a2f2f7777772e6578616d706c652e636f6d",
            ]
        ),
        (
            .unsupportedType, "floating-point numbers",
            [
                "f90000", "f98000", "f93c00", "fb3ff199999999999a", "f93e00", "f97bff", "fa47c35000", "fa7f7fffff",
                "fb7e37e43c8800759c", "f90001", "f90400", "f9c400", "fbc010666666666666", "f97c00", "f97e00", "f9fc00",
                "fa7f800000", "fa7fc00000", "faff800000", "fb7ff0000000000000", "fb7ff8000000000000",
                "fbfff0000000000000",
            ]
        ),
        (
            // RFC 8949 itself forbids f818 (section 3.3); the example is RFC 7049's.
            .unsupportedType, "undefined and unassigned simple values", ["f7", "f0", "f818", "f8ff"]
        ),
        (
            .indefiniteLength, "indefinite lengths: a second spelling of every string, array and map",
            [
                "5f42010243030405ff", "7f657374726561646d696e67ff", "9fff", "9f018202039f0405ffff",
                "9f01820203820405ff", "83018202039f0405ff", "83019f0203ff820405",
                "9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", "bf61610161629f0203ffff",
                "826161bf61626163ff", "bf6346756ef563416d7421ff",
            ]
        ),
    ]

    @Test(
        "appendix A: every example is read exactly, or refused for a reason", .enabled(if: SharedVectors.has(examples)))
    func appendixA() throws {
        let examples = try #require(try SharedVectors.read([Example].self, Self.examples))
        var accepted = 0
        var refused = 0
        for example in examples {
            let bytes = hex(example.hex)
            if let entry = Self.stricter.first(where: { $0.examples.contains(example.hex) }) {
                #expect(CBORItem.skip(bytes) == entry.fault, "\(example.hex): \(entry.why)")
                refused += 1
            } else {
                #expect(CBORItem.skip(bytes) == nil, "\(example.hex)")
                switch CBORItem.read(bytes) {
                case .success(let item): #expect(item.encoded == bytes, "\(example.hex)")
                case .failure(let fault):
                    // The two integers of 64 bits that Int64 does not hold.
                    #expect(fault == .integerTooLarge && example.hex.hasSuffix("bffffffffffffffff"))
                }
                accepted += 1
            }
        }
        #expect(refused == Self.stricter.map(\.examples.count).reduce(0, +))
        #expect(accepted == examples.count - refused)
        #expect(accepted == 37)
    }

    @Test("appendix F: everything that is not well-formed is refused", .enabled(if: SharedVectors.has(notWellFormed)))
    func appendixF() throws {
        let vectors = try #require(try SharedVectors.read(NotWellFormed.self, Self.notWellFormed)).vectors
        #expect(vectors.count == 94)
        for vector in vectors {
            let bytes = hex(vector.hex)
            #expect(CBORItem.skip(bytes) != nil, "\(vector.hex)")
            #expect(throws: CBORFault.self, "\(vector.hex)") { try CBORItem.read(bytes).get() }
        }
    }
}
