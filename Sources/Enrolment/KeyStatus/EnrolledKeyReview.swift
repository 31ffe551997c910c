internal import EventLoop
internal import Registry

/// The review of enrolled phones by the status list: those whose keys rest on a listed certificate are marked, so that
/// every gateway of the registry refuses them; marked ones are released when it is listed no more.
///
/// It runs after each confirmation of the list, page by page, and only one at a time.
final class EnrolledKeyReview {
    private enum Step {
        /// Slices of the list in which devices are searched, the present one last.
        case marking(slices: [ArraySlice<String>], after: DeviceID?)
        case releasing(after: DeviceID?)
    }

    private struct Run {
        let listed: Set<String>
        let mayRelease: Bool
        var step: Step
        var marked = 0
        var released = 0
        var kept = 0
    }

    private let context: EnrolmentContext
    private let label: (DeviceDetails) -> String?
    private var run: Run?
    /// The list for the next run, if one arrives meanwhile.
    private var next: (listed: Set<String>, mayRelease: Bool)?
    private var isStopped = false
    /// Whether the last run has failed, which is reported once.
    private var isFailing = false

    /// The maximum number of devices in a page.
    private static let limit = 64
    /// The maximum number of devices that are named in the log in one run.
    private static let namedLimit = 20

    /// Creates a review.
    ///
    /// - Parameter label: Returns a device's short id for the log.
    init(_ context: EnrolmentContext, label: @escaping (DeviceDetails) -> String?) {
        self.context = context
        self.label = label
    }

    /// Begins a run, or has it follow the present one.
    ///
    /// - Parameters:
    ///   - listed: The serials of the list in hexadecimal.
    ///   - mayRelease: Whether the list is known to be current. An old one must not undo what another gateway knows.
    func begin(_ listed: Set<String>, mayRelease: Bool) {
        guard run == nil else {
            next = (listed, mayRelease)
            return
        }
        let all = listed.sorted()
        let slices = stride(from: 0, to: all.count, by: ListedKeySearch.serialLimit).map {
            all[$0..<min($0 + ListedKeySearch.serialLimit, all.count)]
        }
        run = Run(listed: listed, mayRelease: mayRelease, step: .marking(slices: slices, after: nil))
        proceed()
    }

    /// Begins the run that has failed once more.
    func retry() {
        if isFailing, run == nil { beginNext() }
    }

    func stop() { isStopped = true }

    private func proceed() {
        guard !isStopped, let run else { return }
        switch run.step {
        case .marking(let slices, let after):
            guard let slice = slices.last else {
                self.run?.step = .releasing(after: nil)
                return run.mayRelease ? proceed() : end()
            }
            let search = ListedKeySearch(serials: slice, after: after, limit: Self.limit)
            perform(.markListedKeys(search)) { [weak self] page in self?.marked(page, slices) }
        case .releasing(let after):
            let review = ListedKeyReview(listed: run.listed, after: after, limit: Self.limit)
            perform(.releaseUnlistedKeys(review)) { [weak self] page in self?.released(page) }
        }
    }

    private func perform(_ command: RegistryCommand, _ done: @escaping (ListedKeyPage) -> Void) {
        context.registryRequests.perform(command) { [weak self] result in
            guard case .success(.listedKeys(let page)) = result else { self?.fail(); return }
            done(page)
        }
    }

    private func marked(_ page: ListedKeyPage, _ slices: [ArraySlice<String>]) {
        report(
            page.changed, "listed", before: run?.marked ?? 0, "Google has revoked a certificate that attests its key")
        run?.marked += page.changed.count
        run?.step =
            page.next.map { .marking(slices: slices, after: $0) } ?? .marking(slices: slices.dropLast(), after: nil)
        proceed()
    }

    private func released(_ page: ListedKeyPage) {
        report(page.changed, "released", before: run?.released ?? 0, "no certificate that attests its key is listed")
        run?.released += page.changed.count
        run?.kept += page.kept
        guard let next = page.next else { return end() }
        run?.step = .releasing(after: next)
        proceed()
    }

    private func end() {
        guard let run else { return }
        self.run = nil
        isFailing = false
        if run.mayRelease { context.shared.count { if $0.statusList != nil { $0.revokedDevices = run.kept } } }
        for (count, outcome) in [(run.marked, "listed"), (run.released, "released")] where count > Self.namedLimit {
            notify(.warning, [LogFact("outcome", outcome), LogFact("devices", count)])
        }
        beginNext()
    }

    /// Ends the run, which `retry` repeats, unless a newer list has arrived.
    private func fail() {
        guard let run, !isStopped else { return }
        next = next ?? (run.listed, run.mayRelease)
        self.run = nil
        if !isFailing {
            notify(
                .warning, [LogFact("outcome", "failed")],
                because: "the registry does not answer: enrolled phones wait")
        }
        isFailing = true
    }

    private func beginNext() {
        guard let (listed, mayRelease) = next else { return }
        next = nil
        begin(listed, mayRelease: mayRelease)
    }

    private func report(_ devices: [DeviceDetails], _ outcome: String, before: Int, _ reason: String) {
        for details in devices.prefix(max(0, Self.namedLimit - before)) {
            let name = label(details).map { [LogFact("device", $0)] } ?? []
            let facts = [LogFact("outcome", outcome)] + name + [LogFact("app", details.device.identity.app)]
            notify(.warning, facts, because: reason)
        }
    }

    private func notify(
        _ severity: EnrolmentNotice.Severity, _ facts: [LogFact], because reason: String? = nil
    ) {
        context.notify(EnrolmentNotice(.statusList, severity, facts, because: reason))
    }
}
