import Testing
import Vocabulary

@Suite("Calendar days")
struct GregorianDaysTests {
    @Test(
        "days are counted from 1970-01-01, across leap years and centuries",
        arguments: [
            ([1970, 1, 1], 0), ([1970, 3, 1], 59), ([1972, 2, 29], 789), ([1972, 3, 1], 790), ([2000, 2, 29], 11_016),
            ([2000, 3, 1], 11_017), ([2026, 11, 21], 20_778), ([2100, 2, 28], 47_540), ([2100, 3, 1], 47_541),
            ([9999, 12, 31], 2_932_896),
        ] as [([Int64], Int64)])
    func days(date: [Int64], count: Int64) {
        #expect(GregorianDays.count(to: date[0], date[1], date[2]) == count)
    }
}
