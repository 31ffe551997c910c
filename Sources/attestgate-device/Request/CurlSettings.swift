internal import CCurl

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
