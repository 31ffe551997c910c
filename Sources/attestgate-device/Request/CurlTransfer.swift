internal import CCurl
internal import Foundation

/// A transfer that gave no response.
struct TransferError: Error, CustomStringConvertible {
    /// libcurl's code, which is curl's exit code: 6 name, 7 connection, 16 no HTTP/2, 28 time, 35 TLS, 56 receiving, 60 server certificate.
    let code: Int32
    let description: String
}

/// One libcurl handle: it keeps its connection, so that a challenge, a request and a replay share one.
final class CurlTransfer {
    /// What is sent.
    struct Outgoing {
        var method: String
        var url: String
        var lines: [HeaderLine]
        var content: [UInt8]?
    }

    /// The head of the response.
    struct Head {
        var status = 0
        /// As received, the status line first, line ends included.
        var bytes: [UInt8] = []

        /// The values of all lines of a field, in order.
        func values(_ name: String) -> [String] {
            String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline).compactMap { line in
                guard let field = HeaderLine(String(line)), field.isNamed(name) else { return nil }
                return field.value ?? ""
            }
        }
    }

    /// Takes content as it comes. Returns false to stop the transfer.
    typealias Receiver = (Head, UnsafeRawBufferPointer) -> Bool

    let curl: OpaquePointer
    private let isHTTP2: Bool
    private let configure: (CurlSettings) throws -> Void
    /// The server has answered in another version than the one that was demanded.
    private var isOtherVersion = false
    /// What libcurl says of a transfer that fails, an alert by its name. It writes there for as long as the handle lives.
    private let reason = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private var head = Head()
    private var receiver: Receiver = { _, _ in true }
    /// What the transfer under way refers to.
    private var lines: CurlList?

    /// - Parameters:
    ///   - isHTTP2: whether HTTP/2 is spoken, and nothing else will do.
    ///   - configure: sets what every transfer has in common.
    init(isHTTP2: Bool, configure: @escaping (CurlSettings) throws -> Void) throws {
        guard curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK, let curl = curl_easy_init() else {
            throw TransferError(code: 2, description: "libcurl cannot be used")
        }
        self.curl = OpaquePointer(curl)
        self.isHTTP2 = isHTTP2
        self.configure = configure
    }

    deinit {
        curl_easy_cleanup(UnsafeMutableRawPointer(curl))
        reason.deallocate()
    }

    /// Sends a request and waits for the whole response.
    func perform(_ outgoing: Outgoing, receiver: @escaping Receiver) throws -> Head {
        try prepare(outgoing, receiver: receiver)
        return try finish(curl_easy_perform(UnsafeMutableRawPointer(curl)))
    }

    /// Makes ready to be carried out, by itself or with others.
    func prepare(_ outgoing: Outgoing, receiver: @escaping Receiver) throws {
        let handle = UnsafeMutableRawPointer(curl)
        curl_easy_reset(handle)
        let settings = CurlSettings(handle)
        try configure(settings)
        try settings.set(CURLOPT_HTTP_VERSION, isHTTP2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1)
        // The answer of a proxy on the way is not the server's response.
        try settings.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        try settings.set(CURLOPT_URL, outgoing.url)
        try settings.setMethod(outgoing.method, outgoing.content)
        let lines = CurlList(outgoing.lines.map(\.text))
        try settings.set(CURLOPT_HTTPHEADER, lines)
        self.lines = lines
        // Passed unretained: callbacks come only while the transfer is carried out, which self outlives.
        let context = Unmanaged.passUnretained(self).toOpaque()
        try settings.set(CURLOPT_HEADERFUNCTION, receiver: headReceived, context: CURLOPT_HEADERDATA, context)
        try settings.set(CURLOPT_WRITEFUNCTION, receiver: contentReceived, context: CURLOPT_WRITEDATA, context)
        reason[0] = 0
        ag_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, reason)
        head = Head()
        isOtherVersion = false
        self.receiver = receiver
    }

    /// The head of the response, or why there is none. To be called once with what became of the transfer.
    func finish(_ code: CURLcode) throws(TransferError) -> Head {
        receiver = { _, _ in true }
        guard !isOtherVersion else {
            throw TransferError(
                code: Int32(CURLE_HTTP2.rawValue),
                description: "the server does not support HTTP/2: its `protocols` lack h2, or it chose HTTP/1.1")
        }
        guard code == CURLE_OK else {
            let text = String(cString: reason)
            throw TransferError(
                code: Int32(code.rawValue),
                description: text.isEmpty ? String(cString: curl_easy_strerror(code)) : text)
        }
        return head
    }

    /// - Returns: false to stop the transfer.
    fileprivate func take(headLine line: UnsafeRawBufferPointer) -> Bool {
        // libcurl takes HTTP/1.1 where it was asked for HTTP/2 and the server has none: that says nothing of HTTP/2.
        if isHTTP2, line.starts(with: Array("HTTP/1".utf8)) {
            isOtherVersion = true
            return false
        }
        if line.starts(with: Array("HTTP/".utf8)) {
            // Interim responses come before the one that counts.
            var status = 0
            ag_curl_get_long(UnsafeMutableRawPointer(curl), CURLINFO_RESPONSE_CODE, &status)
            head = Head(status: status)
        }
        head.bytes += line
        return true
    }

    fileprivate func take(content: UnsafeRawBufferPointer) -> Bool { receiver(head, content) }
}

/// libcurl's callbacks; one that takes less than it was given ends the transfer.
private nonisolated func headReceived(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let bytes, let context else { return 0 }
    let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    let isTaken = transfer.take(headLine: UnsafeRawBufferPointer(start: bytes, count: size * count))
    return isTaken ? size * count : 0
}

private nonisolated func contentReceived(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let bytes, let context else { return 0 }
    let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    let isTaken = transfer.take(content: UnsafeRawBufferPointer(start: bytes, count: size * count))
    return isTaken ? size * count : 0
}
