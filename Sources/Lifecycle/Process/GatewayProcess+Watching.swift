internal import EventLoop
internal import Logging

/// What is looked at while it serves: files that change, certificates that end.
extension GatewayProcess {
    /// Begins to look at the files of what is served now.
    func watchFiles() {
        guard let interval = order.blueprint.watch else {
            fileTimer = nil
            return
        }
        fileWatch = FileWatch(order.blueprint.files)
        fileTimer = LoopTimer(loop: loop, interval: interval, repeats: true) { [unowned self] in
            guard fileWatch?.shouldRead(order.blueprint.files.renewed) ?? false else { return }
            logger.notice(
                "a certificate, key, authority, token, revocation list or OCSP response has changed: reloading")
            reloadAsked { _ in }
        }
    }

    func warnOfExpiries() {
        for news in expiryWatch.news(of: order.blueprint.expiries, at: WallClock.seconds) { logger.warning("\(news)") }
    }
}
