internal import Bytes
internal import EventLoop

/// How a trusted proxy's connection begins.
extension ServerConnection {
    /// Takes the header from the socket and not one byte more: what follows is TLS, and OpenSSL reads it from there.
    ///
    /// Bytes that are known to be the header's are taken at once, so that the rest of one that comes slowly does not wake the
    /// loop again and again.
    ///
    /// - Returns: whether the header is complete, and the client it names is admitted.
    func receiveProxyHeader() -> Bool {
        let taken = input.count
        switch peek(into: &input, atMost: ProxyHeader.longest) {
        case .bytes: break
        case .wouldBlock:
            input.releaseIfEmpty()
            return false
        case .endOfStream, .failed:
            refuseProxy(taken == 0 ? .handshake(.disconnected) : .proxyHeader(.cut))
            return false
        }
        let header: ProxyHeader?
        do throws(ProxyHeaderFault) { header = try ProxyHeader.parse(input.readable) } catch {
            refuseProxy(.proxyHeader(error))
            return false
        }
        guard discard((header?.length ?? input.count) - taken) else {
            refuseProxy(.handshake(.disconnected))
            return false
        }
        guard let header else { return false }
        input.removeAll()
        awaitsProxyHeader = false
        if let source = header.source { peer = source }
        acceptor.application.proxyHeaderRead(self, hasSource: header.source != nil)
        guard acceptor.admits(self) else {
            close(gracefully: false)
            return false
        }
        return true
    }

    /// Without a word: to TLS, which the client behind speaks, nothing has come yet.
    private func refuseProxy(_ refusal: ConnectionRefusal) {
        acceptor.application.connectionRefused(self, refusal)
        close(gracefully: false)
    }
}
