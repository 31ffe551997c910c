internal import EventLoop
internal import Logging

/// Reloads when a file of the served generation has changed.
final class FileWatcher {
    private let generations: Generations
    private let loop: Loop
    private let logger: Logger
    private var watch: FileWatch?
    private var timer: LoopTimer?

    init(_ generations: Generations, loop: Loop, _ logger: Logger) {
        self.generations = generations
        self.loop = loop
        self.logger = logger
        follow()
    }

    /// Watches the files of the generation that is served now.
    func follow() {
        let blueprint = generations.served.blueprint
        watch = FileWatch(blueprint.files)
        timer = blueprint.watch.map { interval in
            LoopTimer(loop: loop, interval: interval, repeats: true) { [unowned self] in look() }
        }
    }

    private func look() {
        guard watch?.shouldRead(generations.served.blueprint.files.renewed) ?? false else { return }
        logger.notice(
            "a conf file, certificate, key, authority, token, revocation list or OCSP response has changed: reloading")
        generations.reload { _ in }
    }
}

/// Reports once in advance, and once afterwards, that a certificate, revocation list or OCSP response of the served
/// generation expires.
final class ExpiryWatch {
    private var news = ExpiryNews()
    private let generations: Generations
    private let logger: Logger
    private var timer: LoopTimer?

    init(_ generations: Generations, loop: Loop, _ logger: Logger) {
        self.generations = generations
        self.logger = logger
        look()
        timer = LoopTimer(loop: loop, interval: .seconds(5), repeats: true) { [unowned self] in look() }
    }

    private func look() {
        let items = ExpiryNews.items(of: generations.served.blueprint)
        for line in news.of(items, at: WallClock.seconds) { logger.warning("\(line)") }
    }
}
