internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// The response on its way in.
extension HTTP1Connection {
    /// More interim responses before one final response are none that a service has a use for.
    private static var interimLimit: Int { 16 }

    /// Reads once and passes on what came. - Returns: whether there may be more at once.
    func receive() -> Bool {
        let room = input.room
        guard room > 0 else { return false }
        switch transport.read(from: self, into: &input) {
        // Nothing was asked yet, so this answers nothing: it may have been sent ahead, for another client to take.
        case .done where !hasSent:
            fail(HTTP2Beginning.look(at: input.readable) == .whole ? .answeredInHTTP2(server: place) : .disconnected)
        case .done(let count):
            advance()
            // A read that left room has emptied the socket; the next one would only say so.
            return count == room || transport.hasBufferedInput
        case .wantRead: input.releaseIfEmpty()
        case .wantWrite:
            input.releaseIfEmpty()
            waitToWriteBeforeReading()
        case .endOfStream where phase == .content && decoder.endsWithConnection: finish(keeping: false)
        case .endOfStream where phase == .tunnel: endTunnelInput()
        // Also content that lasts until the end of the connection, where that ends without close_notify: anybody on the way can cut
        // a connection off, and what came is not all there is (RFC 9112 section 9.8).
        case .endOfStream, .failed(.disconnected): fail(.disconnected)
        case .failed(let failure): fail(tlsFailure(failure))
        }
        return false
    }

    func advance() {
        while isOpen, !isResponseHeld, let call {
            switch phase {
            case .head:
                guard parseHead(call) else { return }
            case .content:
                guard pushContent(call) else { return }
            case .tunnel: return pushTunnel(call)
            case .idle: return
            }
        }
    }

    /// - Returns: whether there is more to do now.
    private func parseHead(_ call: UpstreamCall) -> Bool {
        switch HTTP2Beginning.look(at: input.readable) {
        case .none: break
        case .part: return false
        case .whole:
            fail(.answeredInHTTP2(server: place))
            return false
        }
        let length: Int
        do throws(MessageFault) {
            switch try parser.parse(input.readable, answering: call.method, into: &head) {
            case .incomplete: return false
            case .complete(let complete): length = complete
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        // From here on nobody changes it, and a copy needs no check with each look.
        let head = head
        guard head.status != 101 else {
            guard beginTunnel(call, headLength: length) else { return false }
            input.consume(length)
            return true
        }
        // 100 is between us and the server; 103 and others are optional (RFC 9110 section 15.2).
        if head.isInterim {
            interimResponses += 1
            guard interimResponses <= Self.interimLimit else {
                fail(.malformed(.interimResponsesRepeated))
                return false
            }
        } else {
            decoder = ContentDecoder(head.framing, extensions: .ignored)
            phase = .content
            call.responseHead(head, input.readable.extracting(first: length))
        }
        input.consume(length)
        return true
    }

    /// Sets until when the server may take for the next piece of content. One that has answered early and still gets the request
    /// may wait for the rest of that: then it is the client that is watched. It owes something once it has all of the request,
    /// and while it takes none of what is there for it.
    func awaitContent() {
        if isRequestComplete || isBlocked { setDeadline(loop.now + contentTimeout) } else { clearDeadline() }
    }

    /// Whether the head talks of content that must not follow: with HEAD, 204 and 304 (RFC 9112 section 6.3). There are servers that
    /// send it all the same, a moment later, and it would be taken for the next response.
    private func mayBeFollowedByContent(_ call: UpstreamCall) -> Bool {
        guard head.framing == .none else { return false }
        if head.statesChunked { return true }
        return call.method == .head ? head.statedLength != 0 : (head.statedLength ?? 0) > 0
    }

    /// - Returns: whether there is more to do now.
    private func pushContent(_ call: UpstreamCall) -> Bool {
        // A copy while it is in use: an access to the property that lasts would be checked for exclusivity every time.
        var decoder = decoder
        defer { self.decoder = decoder }
        do throws(MessageFault) {
            switch try decoder.next(input.readable) {
            case .needMore:
                awaitContent()
                return false
            case .framing(let count): input.consume(count)
            case .content(let count):
                let taken = call.responseContent(input.readable.extracting(first: count))
                input.consume(taken)
                decoder.consumed(taken)
                guard taken == count else {
                    // The client is slower than the server; the client's own timeouts watch it.
                    isResponseHeld = true
                    wantRead(false)
                    clearDeadline()
                    return false
                }
            case .end:
                finish(
                    keeping: head.isPersistent && isRequestComplete && output.isEmpty && input.isEmpty
                        && !mayBeFollowedByContent(call))
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        return true
    }

    // MARK: - Unused connections

    /// Whether it can serve the next call: nothing has come from the server, not even the end.
    var isReusable: Bool {
        if transport.isPlain { return isQuiet }
        // Of a record that is there in part, nobody knows what it will be.
        return readUnasked() && !transport.hasBufferedInput
    }

    /// Takes in what a server may send over TLS whenever it likes: tickets and key updates (RFC 8446 section 4.6). Only TLS can
    /// tell these from an answer that nobody has asked for.
    ///
    /// - Returns: whether that is all that came.
    func readUnasked() -> Bool {
        guard !transport.isPlain, case .wantRead = transport.read(from: self, into: &input) else { return false }
        input.releaseIfEmpty()
        return true
    }
}
