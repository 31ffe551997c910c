internal import CCurl
internal import Foundation
internal import TrustClient

/// A transfer without a response.
struct TransferError: Error, CustomStringConvertible {
    /// libcurl's code, which is curl's exit code: 6 name, 7 connection, 16 no HTTP/2, 28 timeout, 35 TLS, 56 receiving,
    /// 60 server certificate.
    let code: Int32
    let description: String
}

/// A libcurl handle. It keeps its connection, so that challenge, request and replay share it.
final class CurlTransfer {
    /// The request to send.
    struct Outgoing {
        var method: String
        var url: String
        var lines: [HeaderLine]
        var content: [UInt8]?
    }

    /// The head of a response.
    struct Head {
        var status = 0
        /// The bytes as received, with status line and line ends.
        var bytes: [UInt8] = []

        /// Returns the values of all lines of a field, in order.
        func values(_ name: String) -> [String] {
            String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline).compactMap { line in
                guard let field = HeaderLine(String(line)), field.isNamed(name) else { return nil }
                return field.value ?? ""
            }
        }
    }

    /// A receiver of content. It returns false to stop the transfer.
    typealias Receiver = (Head, UnsafeRawBufferPointer) -> Bool

    let curl: OpaquePointer
    private let isHTTP2: Bool
    private let configure: (CurlSettings) throws -> Void
    /// Whether the server answered in another version than required.
    private var isOtherVersion = false
    /// libcurl's description of a failed transfer, including the name of an alert. libcurl writes to it until the
    /// handle is freed.
    private let reason = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private var head = Head()
    private var receiver: Receiver = { _, _ in true }
    /// The lines to which the present transfer refers.
    private var lines: CurlList?

    /// Creates a handle.
    ///
    /// - Parameters:
    ///   - isHTTP2: Whether HTTP/2 is required.
    ///   - configure: Sets the common options of all transfers.
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

    /// Sends a request and waits for the complete response.
    func perform(_ outgoing: Outgoing, receiver: @escaping Receiver) throws -> Head {
        try prepare(outgoing, receiver: receiver)
        return try finish(curl_easy_perform(UnsafeMutableRawPointer(curl)))
    }

    /// Sends a request and waits for the complete response, whose content is at most that of the enrolment service's.
    func collect(_ outgoing: Outgoing) throws -> (head: Head, content: [UInt8]) {
        var received: [UInt8] = []
        let head = try perform(outgoing) { _, bytes in
            received += bytes
            return received.count <= EnrolmentAnswer.contentLimit
        }
        return (head, received)
    }

    /// Prepares a transfer, which runs alone or in a group.
    func prepare(_ outgoing: Outgoing, receiver: @escaping Receiver) throws {
        let handle = UnsafeMutableRawPointer(curl)
        curl_easy_reset(handle)
        let settings = CurlSettings(handle)
        try configure(settings)
        try settings.set(CURLOPT_HTTP_VERSION, isHTTP2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1)
        // The answer of a proxy is not the server's response.
        try settings.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        try settings.set(CURLOPT_URL, outgoing.url)
        try settings.setMethod(outgoing.method, outgoing.content)
        let lines = CurlList(outgoing.lines.map(\.text))
        try settings.set(CURLOPT_HTTPHEADER, lines)
        self.lines = lines
        // Passed unretained, because callbacks occur only during the transfer, and self exists longer.
        let context = Unmanaged.passUnretained(self).toOpaque()
        try settings.set(CURLOPT_HEADERFUNCTION, receiver: headReceived, context: CURLOPT_HEADERDATA, context)
        try settings.set(CURLOPT_WRITEFUNCTION, receiver: contentReceived, context: CURLOPT_WRITEDATA, context)
        reason[0] = 0
        ag_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, reason)
        head = Head()
        isOtherVersion = false
        self.receiver = receiver
    }

    /// Returns the head of the response or throws the reason of a failure. Call it once with the transfer's result.
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

    /// Receives a line of the head.
    ///
    /// - Returns: false to stop the transfer.
    fileprivate func take(headLine line: UnsafeRawBufferPointer) -> Bool {
        // libcurl accepts HTTP/1.1 if the server does not support HTTP/2. The line then says nothing about HTTP/2.
        if isHTTP2, line.starts(with: Array("HTTP/1".utf8)) {
            isOtherVersion = true
            return false
        }
        if line.starts(with: Array("HTTP/".utf8)) {
            // Interim responses precede the final one.
            var status = 0
            ag_curl_get_long(UnsafeMutableRawPointer(curl), CURLINFO_RESPONSE_CODE, &status)
            head = Head(status: status)
        }
        head.bytes += line
        return true
    }

    fileprivate func take(content: UnsafeRawBufferPointer) -> Bool { receiver(head, content) }
}

/// The callback of libcurl for the head. A smaller count than received ends the transfer.
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

/// A setter of a libcurl handle's options. Each failure is a programming error and is reported with the option's
/// number.
struct CurlSettings {
    private let handle: UnsafeMutableRawPointer

    init(_ handle: UnsafeMutableRawPointer) {
        self.handle = handle
    }

    func set(_ option: CURLoption, _ value: Int) throws {
        try check(ag_curl_set_long(handle, option, value), option)
    }

    /// Sets a text, which libcurl copies.
    func set(_ option: CURLoption, _ value: String) throws {
        try check(ag_curl_set_string(handle, option, value), option)
    }

    /// Sets a list, which must outlive the transfer.
    func set(_ option: CURLoption, _ list: CurlList) throws {
        try check(ag_curl_set_list(handle, option, list.pointer), option)
    }

    func set(
        _ option: CURLoption, receiver: ag_curl_receiver, context: CURLoption, _ value: UnsafeMutableRawPointer
    ) throws {
        try check(ag_curl_set_receiver(handle, option, receiver), option)
        try check(ag_curl_set_pointer(handle, context, value), context)
    }

    /// Sets what the transfers of both commands have in common.
    func setTransfer(authorities: String?, _ resolve: CurlList, maxTime: Int, isVerbose: Bool) throws {
        try set(CURLOPT_PROTOCOLS_STR, "https")
        try set(CURLOPT_NOSIGNAL, 1)
        try set(CURLOPT_TIMEOUT, maxTime)
        try set(CURLOPT_VERBOSE, isVerbose ? 1 : 0)
        try set(CURLOPT_RESOLVE, resolve)
        if let authorities { try set(CURLOPT_CAINFO, authorities) }
    }

    /// Sets the method unchanged. With content, the request has content, whatever the method.
    func setMethod(_ method: String, _ content: [UInt8]?) throws {
        if let content {
            try set(CURLOPT_POST, 1)
            try check(
                ag_curl_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(content.count)),
                CURLOPT_POSTFIELDSIZE_LARGE)
            // Copied, because it may contain zeros, and the array may move.
            var bytes = content
            try check(
                bytes.withUnsafeMutableBytes { ag_curl_set_pointer(handle, CURLOPT_COPYPOSTFIELDS, $0.baseAddress) },
                CURLOPT_COPYPOSTFIELDS)
            if content.isEmpty { try set(CURLOPT_COPYPOSTFIELDS, "") }
        } else {
            try set(method == "HEAD" ? CURLOPT_NOBODY : CURLOPT_HTTPGET, 1)
        }
        try set(CURLOPT_CUSTOMREQUEST, method)
    }

    private func check(_ code: CURLcode, _ option: CURLoption) throws {
        guard code == CURLE_OK else {
            throw TransferError(
                code: Int32(code.rawValue),
                description: "option \(option.rawValue): \(String(cString: curl_easy_strerror(code)))")
        }
    }
}

/// Texts in libcurl's linked list.
final class CurlList {
    fileprivate let pointer: UnsafeMutablePointer<curl_slist>?

    init(_ texts: [String]) {
        var list: UnsafeMutablePointer<curl_slist>?
        for text in texts { list = curl_slist_append(list, text) ?? list }
        pointer = list
    }

    deinit {
        curl_slist_free_all(pointer)
    }
}

/// Simultaneous transfers with connections that later ones reuse.
final class CurlGroup {
    let transfers: [CurlTransfer]
    private let multi: OpaquePointer

    /// Creates a group.
    ///
    /// - Parameters:
    ///   - onOneConnection: Whether all transfers are streams of one HTTP/2 connection. Otherwise each has a
    ///     connection.
    ///   - configure: Sets the common options of all transfers.
    init(_ count: Int, onOneConnection: Bool, configure: @escaping (CurlSettings) throws -> Void) throws {
        transfers = try (0..<count).map { _ in
            try CurlTransfer(isHTTP2: onOneConnection) { settings in
                try configure(settings)
                // A transfer waits while the shared connection is being established.
                if onOneConnection { try settings.set(CURLOPT_PIPEWAIT, 1) }
            }
        }
        guard let multi = curl_multi_init() else { throw TransferError(code: 2, description: "libcurl cannot be used") }
        self.multi = OpaquePointer(multi)
        // Transfers above the server's limit wait for a stream of the same connection.
        if onOneConnection { ag_curl_multi_set_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, 1) }
        ag_curl_multi_set_long(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, count)
    }

    deinit {
        curl_multi_cleanup(UnsafeMutableRawPointer(multi))
    }

    /// Runs prepared transfers and waits for all.
    ///
    /// - Returns: their results in the same order.
    func perform(_ chosen: [CurlTransfer]) -> [Result<CurlTransfer.Head, TransferError>] {
        let handle = UnsafeMutableRawPointer(multi)
        for transfer in chosen { curl_multi_add_handle(handle, UnsafeMutableRawPointer(transfer.curl)) }
        var codes: [OpaquePointer: CURLcode] = [:]
        while codes.count < chosen.count {
            var running: Int32 = 0
            guard curl_multi_perform(handle, &running) == CURLM_OK else { break }
            var left: Int32 = 0
            while let message = curl_multi_info_read(handle, &left) {
                guard message.pointee.msg == CURLMSG_DONE else { continue }
                codes[OpaquePointer(message.pointee.easy_handle)] = message.pointee.data.result
            }
            // The call returns after an event. Each transfer has its own timeout.
            if codes.count < chosen.count, curl_multi_poll(handle, nil, 0, 1000, nil) != CURLM_OK { break }
        }
        for transfer in chosen { curl_multi_remove_handle(handle, UnsafeMutableRawPointer(transfer.curl)) }
        return chosen.map { transfer in
            Result { () throws(TransferError) in try transfer.finish(codes[transfer.curl] ?? CURLE_FAILED_INIT) }
        }
    }
}

/// A header line in the form of `-H`: `Name: value`, or `Name:` to omit a field of libcurl.
struct HeaderLine: Equatable {
    let name: String
    /// The value. Nil if the line removes a field.
    let value: String?

    init?(_ text: String) {
        guard let colon = text.firstIndex(of: ":"), colon > text.startIndex,
            !text.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7f })
        else { return nil }
        name = String(text[..<colon])
        let rest = text[text.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        value = rest.isEmpty ? nil : String(rest)
    }

    init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    func isNamed(_ other: String) -> Bool { name.lowercased() == other }

    /// The form for libcurl.
    var text: String { value.map { "\(name): \($0)" } ?? "\(name):" }
}
