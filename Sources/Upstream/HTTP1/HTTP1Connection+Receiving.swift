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
        let (step, room) = transport.fill(&input, from: self)
        guard room > 0 else { return false }
        switch step {
        // Nothing was asked yet, so this answers nothing: it may have been sent ahead, for another client to take.
        case .done where !hasSent:
            fail(HTTP2Preface.look(at: input.readable) == .whole ? .answeredInHTTP2(server: place) : .disconnected)
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

    /// What there is where a response begins.
    private enum ResponseStart {
        case incomplete
        case head(length: Int)
        case http2
        case malformed(MessageFault)
    }

    private static func look(
        at bytes: Span<UInt8>, answering method: Method?, _ parser: inout ResponseHeadParser, _ head: inout ResponseHead
    ) -> ResponseStart {
        switch HTTP2Preface.look(at: bytes) {
        case .none: break
        case .part: return .incomplete
        case .whole: return .http2
        }
        do throws(MessageFault) {
            switch try parser.parse(bytes, answering: method, into: &head) {
            case .incomplete: return .incomplete
            case .complete(let length): return .head(length: length)
            }
        } catch {
            return .malformed(error)
        }
    }

    /// - Returns: whether there is more to do now.
    private func parseHead(_ call: UpstreamCall) -> Bool {
        let method = call.method
        // Taken out while it is in use: an access to the property that lasts would be checked for exclusivity, and with it all others.
        var head = ResponseHead()
        swap(&head, &self.head)
        defer { swap(&head, &self.head) }
        let length: Int
        switch Self.look(at: input.readable, answering: method, &parser, &head) {
        case .incomplete: return false
        case .head(let complete): length = complete
        case .http2:
            fail(.answeredInHTTP2(server: place))
            return false
        case .malformed(let fault):
            fail(.malformed(fault))
            return false
        }
        guard head.status != 101 else {
            guard beginTunnel(call, head, headLength: length) else { return false }
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
            allowsAnotherCall = head.isPersistent && !Self.mayBeFollowedByContent(head, answering: method)
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
    private static func mayBeFollowedByContent(_ head: ResponseHead, answering method: Method?) -> Bool {
        guard head.framing == .none else { return false }
        if head.statesChunked { return true }
        return method == .head ? head.statedLength != 0 : (head.statedLength ?? 0) > 0
    }

    /// - Returns: whether there is more to do now.
    private func pushContent(_ call: UpstreamCall) -> Bool {
        // A copy while it is in use: an access to the property that lasts would be checked for exclusivity every time.
        var decoder = decoder
        // The end needs no look at what has come, but whether it is all.
        guard !decoder.isAtEnd else {
            finish(keeping: allowsAnotherCall && isRequestComplete && output.isEmpty && input.isEmpty)
            return true
        }
        defer { self.decoder = decoder }
        do throws(MessageFault) {
            let (step, taken) = try Self.pass(input.readable, to: call, &decoder).get()
            switch step {
            case .needMore:
                awaitContent()
                return false
            case .framing(let count): input.consume(count)
            case .content(let count):
                input.consume(taken)
                guard taken == count else {
                    // The client is slower than the server; the client's own timeouts watch it.
                    isResponseHeld = true
                    wantRead(false)
                    clearDeadline()
                    return false
                }
            case .end: break
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        return true
    }

    /// Finds out what the first of the bytes are, and passes them on if they are content.
    ///
    /// - Returns: what they are, and how much content was taken. What throws would keep the compiler from seeing through the access to
    ///   what has come.
    private static func pass(
        _ bytes: Span<UInt8>, to call: UpstreamCall, _ decoder: inout ContentDecoder
    ) -> Result<(step: ContentDecoder.Step, taken: Int), MessageFault> {
        let step: ContentDecoder.Step
        do throws(MessageFault) { step = try decoder.next(bytes) } catch { return .failure(error) }
        guard case .content(let count) = step else { return .success((step, 0)) }
        let taken = call.responseContent(bytes.extracting(first: count))
        decoder.consumed(taken)
        return .success((step, taken))
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
