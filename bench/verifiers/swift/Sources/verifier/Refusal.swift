/// Why a request does not pass.
struct Refusal: Error {
    /// As in docs/denials.md.
    let code: String
    /// 401: a new proof may be accepted; 403: none is.
    let status: Int

    init(_ code: String, status: Int = 401) {
        self.code = code
        self.status = status
    }
}
