internal import CCurl

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
