internal import EventLoop
internal import Registry

/// A collector of the certificates that expire soon. It asks page by page, so that counters do not wait for it.
final class ExpiryFigures {
    private let context: EnrolmentContext
    private var timer: LoopTimer?
    private var isStopped = false
    private var isRunning = false

    private static let interval = TimeSpan.seconds(600)
    private static let day: Int64 = 86_400
    /// The numbers of days in which certificates expire.
    static let days: [Int64] = [7, 30]

    init(_ context: EnrolmentContext) {
        self.context = context
    }

    /// Begins. The first figures are collected at once.
    func begin() {
        timer = LoopTimer(loop: context.loop, interval: Self.interval, repeats: true) { [unowned self] in run() }
        run()
    }

    func stop() {
        isStopped = true
        timer = nil
    }

    private func run() {
        guard !isRunning, !isStopped else { return }
        isRunning = true
        let now = WallClock.seconds
        proceed(ExpiringCertificates.Place(after: now), now, Self.days.map { _ in 0 })
    }

    /// Asks for the next page. After a failure the earlier figures stay.
    private func proceed(_ place: ExpiringCertificates.Place, _ now: Int64, _ counts: [Int]) {
        let end = now + (Self.days.last ?? 0) * Self.day
        context.registryRequests.perform(.listExpiring(after: place, until: end)) { [weak self] result in
            guard let self, !isStopped, case .success(.expiring(let page)) = result else {
                self?.isRunning = false
                return
            }
            let sums = zip(Self.days, counts).map { days, count in
                count + page.ends.count { $0 <= now + days * Self.day }
            }
            if let next = page.next { return proceed(next, now, sums) }
            isRunning = false
            context.shared.count { $0.certificatesExpiring = sums }
        }
    }
}
