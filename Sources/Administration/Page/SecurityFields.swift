internal import Bytes
internal import HTTP

/// Fields that tell browsers what not to do with an answer.
enum SecurityFields {
    /// - Parameter isPage: the answer is the page itself, which may load what lies beside it and nothing else. No script or style stands
    ///   in it, and none makes markup of text: what a client has sent stays text.
    static func append(to output: inout ByteBuffer, isPage: Bool) {
        output.appendField("Content-Security-Policy", isPage ? pagePolicy : dataPolicy)
        output.appendField("X-Content-Type-Options", "nosniff")
        output.appendField("X-Frame-Options", "DENY")
        output.appendField("Referrer-Policy", "no-referrer")
        output.appendField("Cross-Origin-Resource-Policy", "same-origin")
        guard isPage else { return }
        output.appendField("Cross-Origin-Opener-Policy", "same-origin")
        output.appendField("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
    }

    private static let pagePolicy: StaticString = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
        form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'
        """
    private static let dataPolicy: StaticString = "default-src 'none'; frame-ancestors 'none'"
}
