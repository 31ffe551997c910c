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

/// Sets options of a libcurl handle; each failure is one of the caller's, named by the option's number.
struct CurlSettings {
    private let handle: UnsafeMutableRawPointer

    init(_ handle: UnsafeMutableRawPointer) {
        self.handle = handle
    }

    func set(_ option: CURLoption, _ value: Int) throws {
        try check(ag_curl_set_long(handle, option, value), option)
    }

    /// libcurl keeps a copy.
    func set(_ option: CURLoption, _ value: String) throws {
        try check(ag_curl_set_string(handle, option, value), option)
    }

    /// The list must outlive the transfer.
    func set(_ option: CURLoption, _ list: CurlList) throws {
        try check(ag_curl_set_list(handle, option, list.pointer), option)
    }

    func set(
        _ option: CURLoption, receiver: ag_curl_receiver, context: CURLoption, _ value: UnsafeMutableRawPointer
    ) throws {
        try check(ag_curl_set_receiver(handle, option, receiver), option)
        try check(ag_curl_set_pointer(handle, context, value), context)
    }

    /// The method goes as it is; content makes it a request with content, whatever the method.
    func setMethod(_ method: String, _ content: [UInt8]?) throws {
        if let content {
            try set(CURLOPT_POST, 1)
            try check(
                ag_curl_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(content.count)),
                CURLOPT_POSTFIELDSIZE_LARGE)
            // Copied, for it may hold zeros, and the array may move.
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

/// Texts as libcurl's linked list.
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

/// Transfers that are carried out at the same time, and the connections they leave behind for the next.
final class CurlGroup {
    let transfers: [CurlTransfer]
    private let multi: OpaquePointer

    /// - Parameters:
    ///   - onOneConnection: whether all are streams of one connection of HTTP/2; else each has a connection.
    ///   - configure: sets what every transfer has in common.
    init(_ count: Int, onOneConnection: Bool, configure: @escaping (CurlSettings) throws -> Void) throws {
        transfers = try (0..<count).map { _ in
            try CurlTransfer(isHTTP2: onOneConnection) { settings in
                try configure(settings)
                // A transfer that starts while the connection is being made waits for it.
                if onOneConnection { try settings.set(CURLOPT_PIPEWAIT, 1) }
            }
        }
        guard let multi = curl_multi_init() else { throw TransferError(code: 2, description: "libcurl cannot be used") }
        self.multi = OpaquePointer(multi)
        // More than a server admits at once wait for a place on the same connection.
        if onOneConnection { ag_curl_multi_set_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, 1) }
        ag_curl_multi_set_long(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, count)
    }

    deinit {
        curl_multi_cleanup(UnsafeMutableRawPointer(multi))
    }

    /// Carries out those transfers, which have been prepared, and waits for all.
    ///
    /// - Returns: what became of each, in the same order.
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
            // It returns when something has happened; each transfer has a time limit of its own.
            if codes.count < chosen.count, curl_multi_poll(handle, nil, 0, 1000, nil) != CURLM_OK { break }
        }
        for transfer in chosen { curl_multi_remove_handle(handle, UnsafeMutableRawPointer(transfer.curl)) }
        return chosen.map { transfer in
            Result { () throws(TransferError) in try transfer.finish(codes[transfer.curl] ?? CURLE_FAILED_INIT) }
        }
    }
}

/// A header line as `-H` has it: `Name: value`, or `Name:` to leave out what libcurl would send by itself.
struct HeaderLine: Equatable {
    let name: String
    /// Nil if the line takes a field away.
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

    /// As libcurl takes it.
    var text: String { value.map { "\(name): \($0)" } ?? "\(name):" }
}
