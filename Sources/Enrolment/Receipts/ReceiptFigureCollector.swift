internal import Registry
internal import Vocabulary

/// Keeps up to date what of receipts only the registry can tell: how many devices are above their app's risk, and how late it is.
final class ReceiptFigureCollector {
    private let ceilings: [(app: AppID, highest: UInt32)]
    private let questions: RegistryRequests
    private let shared: EnrolmentShared
    private var isAsking = false

    init(_ apps: [EnrolmentSettings.App], _ surroundings: EnrolmentGeneration.EnrolmentContext) {
        ceilings = apps.compactMap { app in app.maximumRisk.map { (app.id, $0) } }
        questions = surroundings.questions
        shared = surroundings.shared
    }

    func ask(at time: Int64) {
        guard !isAsking else { return }
        isAsking = true
        questions.ask(.receiptFigures(ceilings: ceilings, at: time)) { [weak self] result in
            guard let self else { return }
            isAsking = false
            guard case .success(.receiptFigures(let figures)) = result else { return }
            let counts = zip(ceilings, figures.aboveCeiling).map {
                ReceiptMetrics.AppCount(app: $0.app.description, count: $1)
            }
            shared.count { metrics in
                metrics.receipts?.aboveCeiling = counts
                metrics.receipts?.oldestOverdue = figures.oldestDue.map { max(0, time - $0) } ?? 0
            }
        }
    }
}
