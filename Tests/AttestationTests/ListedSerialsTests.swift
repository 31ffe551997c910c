import Attestation
import Testing

@Suite("The serials of the status list")
struct ListedSerialsTests {
    @Test("each entry is looked up in the notation of the store")
    func notations() {
        let cases: [(entry: String, hexadecimal: Set<String>)] = [
            ("6681152659205225093", ["6681152659205225093", "5cb838f1fe157a85"]), ("1a2b", ["1a2b"]),
            ("001a2b", ["1a2b"]), ("0", ["0"]), ("00", ["0"]), ("255", ["255", "ff"]), ("16", ["16", "10"]),
            ("0016", ["16", "10"]), ("c35747a084470c3135aeefe2b8d40cd6", ["c35747a084470c3135aeefe2b8d40cd6"]),
            (
                "340282366920938463463374607431768211455",
                ["340282366920938463463374607431768211455", "ffffffffffffffffffffffffffffffff"]
            ),
            // 2^160 - 1, the greatest serial, and 2^160.
            (
                "1461501637330902918203684832716283019655932542975",
                [String(repeating: "f", count: 40)]
            ),
            ("1461501637330902918203684832716283019655932542976", []),
            (String(repeating: "f", count: 41), []), ("", []), ("x1", []), ("-1", []),
        ]
        for (entry, hexadecimal) in cases {
            #expect(AttestationStatusList(serials: [entry]).hexadecimalSerials == hexadecimal, "\(entry)")
        }
    }
}
