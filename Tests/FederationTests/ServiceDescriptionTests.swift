import Chance
import RegistryMemory
import Testing

@testable import Federation
@testable import Registry

@Suite("RSD2 documents of services")
struct ServiceDescriptionTests {
    private static let origin = "learn.example"

    private func read(_ text: String) throws -> ServiceDescription {
        try ServiceDescription(Array(text.utf8), origin: Self.origin)
    }

    private func document(link: String) -> String {
        #"{"engineName":"a","engineLink":"https://learn.example","apis":{"courses":{"apiLink":"\#(link)","more":[1]}}}"#
    }

    @Test("links to the service's own server and paths below it are taken")
    func taken() throws {
        for link in ["/", "/courses", "courses/a?b=c", "https://learn.example/a", "https://LEARN.example:443/a"] {
            #expect(try read(document(link: link)).protocols == ["courses"], "\(link)")
        }
        #expect(try read(document(link: "/")).text == Array(document(link: "/").utf8))
    }

    @Test(
        "links that leave the server are refused",
        arguments: [
            "//evil.example", "https://evil.example", "http://learn.example", "a:b/c", "javascript:x", "../a", "a/../b",
            "/%2E./", "/a%2fb", #"\\\\evil.example"#, "/a b", "https://learn.example@evil.example/",
            "https://learn.example:444/",
        ])
    func refused(link: String) {
        #expect(throws: ServiceDescription.Fault.self) { try read(document(link: link)) }
    }

    @Test("an altered document is refused or has its own links")
    func altered() throws {
        let good = Array(document(link: "/courses").utf8)
        var chance = SeededGenerator(seed: RunSeed.tell())
        for _ in 0..<2_000 {
            var bytes = good
            bytes[Int.random(in: 0..<bytes.count, using: &chance)] = UInt8.random(in: 0...255, using: &chance)
            guard let description = try? ServiceDescription(bytes, origin: Self.origin) else { continue }
            #expect(description.protocols.count == 1)
        }
    }

    @Test("services are found by all of their protocols, and keep their documents while their places are the same")
    func directory() throws {
        func service(_ number: Int, url: String = "https://learn.example") -> FederationService {
            FederationService(
                id: "\(number)", name: "a", url: url, tokenEndpoint: url, descriptionURL: "\(url)/services.txt",
                info: nil, operatorName: "university",
                secret: Fixture.fingerprint(number, kind: 20), joinedAt: 1)
        }
        var directory = ServiceDirectory()
        directory.replace(with: [service(1), service(2)])
        #expect(directory.speaking(["courses"]).isEmpty)
        let description = try read(document(link: "/"))
        directory.describe("1", description)
        directory.describe("3", description)
        #expect(directory.speaking(["courses"]) == [description])
        #expect(directory.speaking(["courses", "other"]).isEmpty)
        #expect(directory.described(["https://learn.example"]) == [description])
        directory.replace(with: [service(1)])
        #expect(directory.speaking(["courses"]) == [description])
        directory.replace(with: [service(1, url: "https://other.example")])
        #expect(directory.speaking(["courses"]).isEmpty)
    }
}
