internal import Cryptography
internal import EventLoop
internal import Server
internal import TLS

/// The TCP addresses on which the administration is served. Tokens and certificates may change while they are: those of all
/// listeners at once, or of none.
final class AdministrationListeners {
    private let loop: Loop
    private let makeAcceptor: (AdministrationDoor) throws(CryptographyError) -> Acceptor
    private var serving: [(listener: AdministrationListener, acceptor: Acceptor)] = []
    private var prepared: [Prepared] = []
    /// Those that still have connections, and of them the ones whose last connection has closed.
    private var retired: [Acceptor] = []
    private var emptied: [Acceptor] = []
    private var cleaner: LoopTimer?

    private struct Prepared {
        /// Among those that serve.
        let place: Int
        let listener: AdministrationListener
        let acceptor: Acceptor
        let context: ServerContext?
        /// Of the listening socket, a second one.
        let descriptor: Int32
    }

    /// - Parameter makeAcceptor: makes the acceptor for the clients of one listener.
    init(loop: Loop, makeAcceptor: @escaping (AdministrationDoor) throws(CryptographyError) -> Acceptor) {
        self.loop = loop
        self.makeAcceptor = makeAcceptor
        // In an event of its own: the one that closes the last connection is still that connection's.
        cleaner = LoopTimer(loop: loop, interval: .milliseconds(0)) { [unowned self] in clean() }
    }

    deinit {
        discard()
    }

    /// Listens at one more address. - Parameter inherited: sockets that came with the process.
    func open(
        _ listener: AdministrationListener, _ inherited: InheritedSockets? = nil
    ) throws(AdministrationStartError) {
        do {
            let context = try listener.makeContext(try LibraryContext())
            let acceptor = try makeAcceptor(listener.door)
            let given = inherited?.take(listener.address) ?? []
            for descriptor in given { acceptor.listen(on: Socket(adopting: descriptor), context) }
            if given.isEmpty { acceptor.listen(on: try Socket.listen(on: listener.address, isShared: false), context) }
            serving.append((listener, acceptor))
        } catch {
            throw Self.failure(listener, "\(error)")
        }
    }

    // MARK: - Changes

    /// Everything that can fail is done here: the change itself cannot. Listeners that stay as they are are left alone.
    func prepare(_ next: [AdministrationListener]) throws(AdministrationStartError) {
        discard()
        for listener in next {
            guard let place = serving.firstIndex(where: { $0.listener.door.name == listener.door.name }) else {
                throw Self.failure(listener, "it is not listening yet")
            }
            guard serving[place].listener != listener else { continue }
            let (context, acceptor): (ServerContext?, Acceptor)
            do throws(CryptographyError) {
                context = try listener.makeContext(try LibraryContext())
                acceptor = try makeAcceptor(listener.door)
            } catch {
                throw Self.failure(listener, "\(error)")
            }
            guard let descriptor = serving[place].acceptor.duplicateListener(0) else {
                throw Self.failure(listener, "there is no free descriptor to hand it over")
            }
            prepared.append(
                Prepared(
                    place: place, listener: listener, acceptor: acceptor, context: context, descriptor: descriptor))
        }
    }

    func adopt() {
        for change in prepared {
            let previous = serving[change.place].acceptor
            change.acceptor.listen(on: Socket(adopting: change.descriptor), change.context)
            serving[change.place] = (change.listener, change.acceptor)
            retire(previous)
        }
        prepared = []
    }

    func discard() {
        for change in prepared { _ = Socket(adopting: change.descriptor) }
        prepared = []
    }

    /// Credentials that admitted a connection may no longer be valid. Clients whose requests are being answered keep
    /// their connections, including the one that asked for this change. Clients that have not authenticated yet must
    /// reconnect.
    private func retire(_ acceptor: Acceptor) {
        retired.append(acceptor)
        acceptor.abort { !$0.isKnown }
        acceptor.drain { [unowned self] in
            emptied.append(acceptor)
            cleaner?.start()
        }
    }

    private func clean() {
        for acceptor in emptied { retired.removeAll { $0 === acceptor } }
        emptied = []
    }

    /// Second descriptors of the listening sockets; nil for each that there is none left for.
    func duplicateSockets() -> [Int32?] { serving.map { $0.acceptor.duplicateListener(0) } }

    /// Accepts no more, and answers what was asked.
    func drain() {
        discard()
        for (_, acceptor) in serving { acceptor.drain {} }
    }

    /// Ends every connection.
    func stop() {
        discard()
        for acceptor in retired + serving.map(\.acceptor) {
            acceptor.drain {}
            acceptor.abortAll()
        }
    }

    private static func failure(_ listener: AdministrationListener, _ reason: String) -> AdministrationStartError {
        AdministrationStartError(description: "administration listener \(listener.door.name): \(reason)")
    }
}

extension Acceptor {
    /// - Parameter context: nil to speak without TLS.
    fileprivate func listen(on socket: consuming Socket, _ context: ServerContext?) {
        if let context { listen(on: socket, tls: context) } else { listen(on: socket) }
    }
}
