internal import Cryptography
internal import EventLoop
internal import Server
internal import TLS

/// The TCP listeners of the administration. Tokens and certificates of all listeners can change together while they
/// serve.
final class AdministrationListeners {
    private let loop: Loop
    private let makeAcceptor: (AccessPoint) throws(CryptographyError) -> Acceptor
    private var serving: [(listener: AdministrationListener, acceptor: Acceptor)] = []
    private var prepared: [Prepared] = []
    /// Retired acceptors with open connections, and those whose last connection has closed.
    private var retired: [Acceptor] = []
    private var emptied: [Acceptor] = []
    private var cleaner: LoopTimer?

    private struct Prepared {
        /// The index among the serving listeners.
        let place: Int
        let listener: AdministrationListener
        let acceptor: Acceptor
        let context: ServerContext?
        /// A duplicate descriptor of the listening socket.
        let descriptor: Int32
    }

    /// Creates an empty value.
    ///
    /// - Parameter makeAcceptor: Creates the acceptor for the clients of one listener.
    init(loop: Loop, makeAcceptor: @escaping (AccessPoint) throws(CryptographyError) -> Acceptor) {
        self.loop = loop
        self.makeAcceptor = makeAcceptor
        // In a separate event, because the present one still uses the last connection.
        cleaner = LoopTimer(loop: loop, interval: .milliseconds(0)) { [unowned self] in clean() }
    }

    deinit {
        discard()
    }

    /// Listens at one more address.
    ///
    /// - Parameter inherited: Sockets that the process inherited.
    func open(
        _ listener: AdministrationListener, _ inherited: InheritedSockets? = nil
    ) throws(AdministrationStartError) {
        do {
            let context = try listener.makeContext(try LibraryContext())
            let acceptor = try makeAcceptor(listener.accessPoint)
            let given = inherited?.take(listener.address) ?? []
            for descriptor in given { acceptor.listen(on: Socket(adopting: descriptor), context) }
            if given.isEmpty { acceptor.listen(on: try Socket.listen(on: listener.address, isShared: false), context) }
            serving.append((listener, acceptor))
        } catch {
            throw Self.failure(listener, "\(error)")
        }
    }

    // MARK: - Changes

    /// Prepares changed listeners. Everything that can fail is done here. Unchanged listeners keep their acceptors.
    func prepare(_ next: [AdministrationListener]) throws(AdministrationStartError) {
        discard()
        for listener in next {
            guard let place = serving.firstIndex(where: { $0.listener.accessPoint.name == listener.accessPoint.name })
            else {
                throw Self.failure(listener, "it is not listening yet")
            }
            guard serving[place].listener != listener else { continue }
            let (context, acceptor): (ServerContext?, Acceptor)
            do throws(CryptographyError) {
                context = try listener.makeContext(try LibraryContext())
                acceptor = try makeAcceptor(listener.accessPoint)
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

    /// Retires an acceptor, because the credentials of its connections may no longer be valid. Clients whose requests
    /// are being answered keep their connections, including the one that requested this change. Clients that have not
    /// authenticated yet must reconnect.
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

    /// Duplicates the descriptors of the listening sockets. Nil for each without a free descriptor.
    func duplicateSockets() -> [Int32?] { serving.map { $0.acceptor.duplicateListener(0) } }

    /// Stops accepting and answers pending requests.
    func drain() {
        discard()
        for (_, acceptor) in serving { acceptor.drain {} }
    }

    /// Closes all connections.
    func stop() {
        discard()
        for acceptor in retired + serving.map(\.acceptor) {
            acceptor.drain {}
            acceptor.abortAll()
        }
    }

    private static func failure(_ listener: AdministrationListener, _ reason: String) -> AdministrationStartError {
        AdministrationStartError(description: "administration listener \(listener.accessPoint.name): \(reason)")
    }
}

extension Acceptor {
    /// Begins to accept.
    ///
    /// - Parameter context: The TLS context. Nil for no TLS.
    fileprivate func listen(on socket: consuming Socket, _ context: ServerContext?) {
        if let context { listen(on: socket, tls: context) } else { listen(on: socket) }
    }
}

/// The reason why the administration cannot be served.
public struct AdministrationStartError: Error, Equatable, CustomStringConvertible {
    /// A message for people.
    public let description: String
}
