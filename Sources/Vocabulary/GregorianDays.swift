/// Days of the Gregorian calendar, counted from 1970-01-01.
public enum GregorianDays {
    /// - Parameters:
    ///   - year: 0 or later.
    ///   - month: from 1 to 12.
    ///   - day: from 1 on; behind the month's last it counts into the next.
    public static func count(to year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // From 1 March 0000, so that the leap day is the last of its year.
        let year = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return 365 * year + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
    }
}
