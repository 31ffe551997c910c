import Cryptography
import Testing

@Suite("Pseudonyms of people")
struct SubjectPseudonymsTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func pseudonym(_ issuer: String, _ subject: String, key: UInt8 = 1) throws -> Digest256 {
        let bytes = [UInt8](repeating: key, count: 32)
        let subjects = SubjectPseudonyms(try AuthenticationKey(bytes.span, library))
        return try subjects.pseudonym(ofSubject: Array(subject.utf8), issuer: issuer)
    }

    @Test("a pseudonym depends on issuer, subject and key, and on nothing else")
    func distinct() throws {
        let one = try pseudonym("https://a", "7")
        #expect(try pseudonym("https://a", "7") == one)
        #expect(try pseudonym("https://a", "8") != one)
        #expect(try pseudonym("https://b", "7") != one)
        #expect(try pseudonym("https://a", "7", key: 2) != one)
        // No byte goes from the one to the other.
        #expect(try pseudonym("https://", "a7") != one)
        #expect(try pseudonym("https://a7", "") != one)
        #expect(try pseudonym("1", "1:x") != pseudonym("11:1", "x"))
    }
}
