import Testing

@testable import Gateway

@Suite("Certificates that proxies state")
struct ForwardedCertificatesTests {
    private typealias Format = ForwardedCertificateFormat

    private static let pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
    private static let encoded = "-----BEGIN%20CERTIFICATE-----%0AMA%3D%3D%0A-----END%20CERTIFICATE-----%0A"

    private func read(_ value: String, chain: String = "", _ format: ForwardedCertificateFormat)
        -> ForwardedCertificates?
    {
        ForwardedCertificates(Array(value.utf8).span, chain: Array(chain.utf8).span, format)
    }

    @Test("each format is read as its proxy writes it")
    func formats() {
        #expect(read(":AQI=:", .rfc9440) == .der([[1, 2]]))
        #expect(read(":AQI=:", chain: ":Aw==:, :BA==:,:BQ==:", .rfc9440) == .der([[1, 2], [3], [4], [5]]))
        #expect(read(Self.encoded, .pemURLEncoded) == .pem(Array(Self.pem.utf8)))
        #expect(read("AQI=", .derBase64) == .der([[1, 2]]))
        #expect(read("AQI=,Aw==", .traefik) == .der([[1, 2], [3]]))
        #expect(read("AQI%3D%2CAw%3D%3D", .traefik) == .der([[1, 2], [3]]))
    }

    @Test("a plus sign is a digit of base64, never a space")
    func plus() {
        let pem = "-----BEGIN CERTIFICATE-----\na+b+/\n-----END CERTIFICATE-----"
        let encoded = "-----BEGIN%20CERTIFICATE-----%0aa+b%2B%2f%0A-----END%20CERTIFICATE-----"
        #expect(read(encoded, .pemURLEncoded) == .pem(Array(pem.utf8)))
        #expect(read("+/+/", .derBase64) == .der([[0xfb, 0xff, 0xbf]]))
    }

    @Test("an element of x-forwarded-client-cert is read with quotes, escapes and other keys")
    func element() {
        let pem = Array(Self.pem.utf8) + [0x0a]
        for value in [
            "Hash=00ff;Cert=\"\(Self.encoded)\"", "cert=\(Self.encoded);Subject=\"CN=a, b;\\\"Cert=\\\"\"",
            "By=spiffe://a/b;CERT=\"\(Self.encoded)\";URI=;DNS=a;DNS=b",
        ] {
            #expect(read(value, .xfcc) == .pem(pem), "\(value)")
        }
        let chain = "Cert=\"\(Self.encoded)\";Chain=\"\(Self.encoded)\(Self.encoded)\""
        #expect(read(chain, .xfcc) == .pem(pem + Array((Self.pem + Self.pem).utf8)))
    }

    @Test("a PEM text has certificates, at most five, and nothing else")
    func pem() {
        let one = Self.encoded
        #expect(read(String(repeating: one, count: 5), .pemURLEncoded) != nil)
        let key = one.replacing("CERTIFICATE", with: "PRIVATE%20KEY")
        for text in [
            String(repeating: one, count: 6), "a%0A\(one)", "\(one)a", "\(one)-\(one)", "\(key)", "\(key)\(one)",
            "\(one)\(key)", "%0A", String(one.dropLast(10)), String(one.dropFirst()), one.replacing("MA", with: "M-"),
            one.replacing("MA", with: "MA%00"),
        ] {
            #expect(read(text, .pemURLEncoded) == nil, "\(text)")
            #expect(read("Cert=\"\(text)\"", .xfcc) == nil, "\(text)")
            #expect(read("Cert=\"\(one)\";Chain=\"\(text)\"", .xfcc) == nil, "\(text)")
        }
        // Of one client.
        #expect(read("Cert=\"\(one)\(one)\"", .xfcc) == nil)
        #expect(read("Cert=\"\"", .xfcc) == nil)
        #expect(read("Cert=;Chain=\"\(one)\"", .xfcc) == nil)
        #expect(read("Cert=\"\(one)\";Chain=\"\"", .xfcc) == nil)
    }

    @Test(
        "two certificates, or none, are no certificate",
        arguments: [
            (":AQI=:, :AQI=:", Format.rfc9440), (":AQI=:;a=1", .rfc9440), ("AQI=", .rfc9440), ("::", .rfc9440),
            (":", .rfc9440), ("AQI=,Aw==", .derBase64), ("AQI= ", .derBase64), ("AQI", .derBase64),
            ("AQJ=", .derBase64),
            ("Hash=00;Cert=\"A\",Hash=01;Cert=\"B\"", .xfcc), ("Cert=\"A\";Cert=\"B\"", .xfcc), ("Hash=00", .xfcc),
            ("Cert=\"A", .xfcc), ("Cert=\"A\"B", .xfcc), ("Cert=\"A\\", .xfcc), ("Cert=%4", .xfcc),
            ("Cert=A;Chain=\"A\";Chain=\"A\"", .xfcc), ("AQI=,", .traefik), (",AQI=", .traefik), ("%4", .traefik),
            ("%", .pemURLEncoded), ("%4", .pemURLEncoded), ("%4g", .pemURLEncoded), ("A%%41", .pemURLEncoded),
        ])
    func refused(_ value: String, _ format: ForwardedCertificateFormat) {
        #expect(read(value, format) == nil)
    }

    @Test("more certificates than a path can have are refused before they are decoded")
    func many() {
        let five = Array(repeating: "Aw==", count: 5).joined(separator: ",")
        #expect(read(five, .traefik) == .der(Array(repeating: [3], count: 5)))
        #expect(read(five + ",Aw==", .traefik) == nil)
        let items = Array(repeating: ":Aw==:", count: 6).joined(separator: ", ")
        #expect(read(":AQI=:", chain: items, .rfc9440) == nil)
    }

    @Test("no bytes crash the readers", arguments: [Format.rfc9440, .pemURLEncoded, .derBase64, .xfcc, .traefik])
    func random(_ format: ForwardedCertificateFormat) {
        let seed = UInt64.random(in: 0...UInt64.max)
        var state = seed
        let alphabet = Array(":,;=\"\\%+/ ACert4%0A-".utf8)
        for _ in 0..<5_000 {
            var bytes: [UInt8] = []
            // An empty value states nothing, and is not read.
            for _ in 0...(state % 39) {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                bytes.append(alphabet[Int((state >> 33) % UInt64(alphabet.count))])
            }
            state = state &* 6_364_136_223_846_793_005 &+ 1
            let read = ForwardedCertificates(bytes.span, chain: bytes.span, format)
            if case .der(let certificates)? = read {
                #expect((1...6).contains(certificates.count), "seed \(seed)")
            }
        }
    }
}
