internal import Cryptography
internal import EventLoop
internal import Server
internal import TLS

/// The TCP addresses on which the administration is served. Tokens and certificates may change while they are: those of all
/// listeners at once, or of none.
final class AdministrationListeners {
    private let loop: Loop
    private let makeAcceptor: (AdministrationDoor) -> Acceptor
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
        let context: ServerContext?
        /// Of the listening socket, a second one.
        let descriptor: Int32
    }

    /// - Parameter makeAcceptor: makes one for whoever comes by that door.
    init(loop: Loop, makeAcceptor: @escaping (AdministrationDoor) -> Acceptor) {
        self.loop = loop
        self.makeAcceptor = makeAcceptor
        // In an event of its own: the one that closes the last connection is still that connection's.
        cleaner = LoopTimer(loop: loop, interval: .milliseconds(0)) { [unowned self] in clean() }
    }

    deinit {
        discard()
    }

    /// Listens at one more address.
    func open(_ listener: AdministrationListener) throws(AdministrationStartError) {
        do {
            let context = try listener.makeContext(try LibraryContext())
            let socket = try Socket.listen(on: listener.address, isShared: false)
            serving.append((listener, accept(on: socket, listener, context)))
        } catch {
            throw Self.failure(listener, "\(error)")
        }
    }

    private func accept(
        on socket: consuming Socket, _ listener: AdministrationListener, _ context: ServerContext?
    ) -> Acceptor {
        let acceptor = makeAcceptor(listener.door)
        if let context { acceptor.listen(on: socket, tls: context) } else { acceptor.listen(on: socket) }
        return acceptor
    }

    // MARK: - Changes

    /// Everything that can fail is done here: the change itself cannot. Listeners that stay as they are are left alone.
    func prepare(_ next: [AdministrationListener]) throws(AdministrationStartError) {
        discard()
        for listener in next {
            guard let place = serving.firstIndex(where: { $0.listener.door.name == listener.door.name }) else {
                throw Self.failure(listener, "nothing listens there yet")
            }
            guard serving[place].listener != listener else { continue }
            let context: ServerContext?
            do throws(CryptographyError) { context = try listener.makeContext(try LibraryContext()) } catch {
                throw Self.failure(listener, "\(error)")
            }
            guard let descriptor = serving[place].acceptor.duplicateListener(0) else {
                throw Self.failure(listener, "no descriptor is left to hand it over by")
            }
            prepared.append(Prepared(place: place, listener: listener, context: context, descriptor: descriptor))
        }
    }

    func adopt() {
        for change in prepared {
            let previous = serving[change.place].acceptor
            let socket = Socket(adopting: change.descriptor)
            serving[change.place] = (change.listener, accept(on: socket, change.listener, change.context))
            retire(previous)
        }
        prepared = []
    }

    func discard() {
        for change in prepared { _ = Socket(adopting: change.descriptor) }
        prepared = []
    }

    /// What opened a connection then need not open it now. Who is being answered still is, whoever has asked for this very
    /// change among them; who has shown nothing yet must come again.
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
