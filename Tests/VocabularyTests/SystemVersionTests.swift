import Testing
import Vocabulary

@Suite("System versions")
struct SystemVersionTests {
    @Test("are compared number by number, and missing numbers are 0")
    func order() throws {
        let ascending = try [
            "0", "1.0.1", "9.2047.2047", "17", "17.0.1", "17.4", "17.4.1", "17.10", "18", "27.0.1", "1023",
        ].map {
            try #require(SystemVersion($0), "\($0)")
        }
        #expect(ascending == ascending.sorted())
        #expect(Set(ascending).count == ascending.count)
        #expect(SystemVersion("17") == SystemVersion("17.0.0"))
        #expect(SystemVersion("17.4") == SystemVersion("17.04.0"))
    }

    @Test("equal versions have one text")
    func text() {
        let texts = [
            "17": "17.0", "17.0.0": "17.0", "17.4": "17.4", "17.4.0": "17.4", "17.4.1": "17.4.1", "017.10": "17.10",
            "1023.2047.2047": "1023.2047.2047", "0": "0.0",
        ]
        for (text, expected) in texts { #expect(SystemVersion(text)?.description == expected) }
        for text in texts.values { #expect(SystemVersion(text)?.description == text) }
    }

    @Test(
        "anything else is none",
        arguments: [
            "", ".", "17.", ".4", "17..4", "17.4.1.0", "17,4", "17.4b", " 17", "17 ", "-1", "+1", "v17", "17.4\n",
            "1e1",
            "1024", "17.2048", "17.4.2048", "00017", "17.99999999999999999999", "１７",
        ])
    func refused(_ text: String) {
        #expect(SystemVersion(text) == nil)
    }

    @Test("are trivial, and take 4 bytes")
    func size() {
        #expect(MemoryLayout<SystemVersion>.size == 4)
        #expect(_isPOD(SystemVersion?.self))
    }
}
