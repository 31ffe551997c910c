import Foundation
import Testing

@testable import Administration

@Suite("The files of the administration page")
struct PageAssetTests {
    private static let texts = PageAsset.all.map { ($0.path, String(decoding: $0.bytes, as: UTF8.self)) }

    private static func matches(_ pattern: String, in text: String) throws -> [String] {
        text.matches(of: try Regex(pattern)).map { String(text[$0.range]) }
    }

    @Test("every file is UTF-8 and has its own path")
    func form() {
        for asset in PageAsset.all { #expect(String(validating: asset.bytes, as: UTF8.self) != nil, "\(asset.path)") }
        #expect(Set(PageAsset.all.map(\.path)).count == PageAsset.all.count)
    }

    @Test("the files refer only to each other")
    func references() throws {
        let paths = Set(PageAsset.all.map(\.path))
        var referred: Set<String> = []
        for (path, text) in Self.texts {
            // The namespace of SVG is only a name and is never requested.
            let without = text.replacing("http://www.w3.org/2000/svg", with: "")
            #expect(try Self.matches(#"(https?:)?//[a-z]"#, in: without.replacing("// ", with: "")).isEmpty, "\(path)")
            for match in try Self.matches(#"(?:src|href)="/[^"]*"|from "\./[^"]*""#, in: text) {
                let target = String(match.split(separator: "\"")[1]).replacing("./", with: "/")
                #expect(paths.contains(target), "\(path): \(match)")
                referred.insert(target)
            }
        }
        #expect(paths.subtracting(referred) == ["/"])
    }

    @Test("the markup has neither inline script nor inline style: the policy forbids them")
    func inline() throws {
        let (_, page) = try #require(Self.texts.first { $0.0 == "/" })
        #expect(try Self.matches(#"<script(?![^>]*\ssrc=)"#, in: page).isEmpty)
        #expect(try Self.matches(#"<style|\sstyle=|\son[a-z]+=|javascript:"#, in: page).isEmpty)
    }

    /// Browsers that support `require-trusted-types-for` enforce the same.
    @Test("no file turns text into markup or code, or stores the token")
    func sinks() throws {
        let forbidden =
            #"(inner|outer)HTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|localStorage|document\.cookie|\.style\b"#
        for (path, text) in Self.texts { #expect(try Self.matches(forbidden, in: text).isEmpty, "\(path)") }
        let (_, gateway) = try #require(Self.texts.first { $0.0 == "/gateway.js" })
        #expect(
            try Self.matches(#"sessionStorage\.setItem\([^)]*\)"#, in: gateway) == [
                "sessionStorage.setItem(storage, answer.key)",
                "sessionStorage.setItem(levelStorage, answer.level)",
            ])
    }

    @Test("every required field and every scrollable part has a name")
    func labels() throws {
        let (_, page) = try #require(Self.texts.first { $0.0 == "/" })
        for field in try Self.matches(#"<(input|select) id="[^"]*""#, in: page) {
            let id = field.split(separator: "\"")[1]
            #expect(page.contains("<label for=\"\(id)\">"), "\(id)")
        }
        for part in try Self.matches(#"<div class="scroll[^>]*>"#, in: page) {
            #expect(part.contains("tabindex=\"0\"") && part.contains("aria-labelledby="), "\(part)")
        }
        for heading in try Self.matches(#"<th(?=[ >])[^>]*>"#, in: page) { #expect(heading.contains("scope=\"col\"")) }
    }
}
