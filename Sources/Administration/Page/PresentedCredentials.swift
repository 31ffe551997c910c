internal import HTTP

/// What a request shows of who asks, and of which page it comes from: as sent, for a door to judge.
struct PresentedCredentials: Equatable {
    /// The Host field.
    var host = ""
    var origins: [String] = []
    /// Sec-Fetch-Site: whether a browser sends the request for a page of another origin.
    var fetchSites: [String] = []
    /// Authorization.
    var authorizations: [String] = []
    /// Values of cookies by that name, wherever they stand.
    var cookies: [String] = []
    /// The page's half of its session.
    var pageKeys: [String] = []

    /// The thumbprint of the certificate that the connection has shown; empty if it has none.
    var certificate: [UInt8] = []

    /// The field that holds the page's key. Its name is none that a form or a simple request can send.
    static let pageField = "attestgate-page"
    private static let fetchSiteField = "sec-fetch-site"

    init() {}

    /// - Parameters:
    ///   - cookieName: of the session; nil where no page is served.
    ///   - text: reads a part of the head.
    init(_ head: RequestHead, cookieName: String?, text: (ByteRange) -> String) {
        host = text(head.authority)
        for field in head.fields {
            switch field.name {
            case .origin: origins.append(text(field.valueRange))
            case .authorization: authorizations.append(text(field.valueRange))
            case .cookie:
                guard let cookieName else { continue }
                // RFC 6265 section 4.2.1: pairs with a semicolon and a blank between them.
                for pair in text(field.valueRange).split(separator: ";") {
                    let pair = pair.drop { $0 == " " }
                    if pair.hasPrefix("\(cookieName)=") { cookies.append(String(pair.dropFirst(cookieName.count + 1))) }
                }
            case .other:
                switch text(field.nameRange).lowercased() {
                case Self.pageField: pageKeys.append(text(field.valueRange))
                case Self.fetchSiteField: fetchSites.append(text(field.valueRange))
                default: break
                }
            default: break
            }
        }
    }
}
