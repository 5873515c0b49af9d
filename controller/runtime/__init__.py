"""The running controller: the command (`launcher`, `supervisor`), its parts made and joined
(`service`), the Ryu application that hands events to the core and effects to the switches (`app`,
`translate`), what the northbound sees and does (`inspection`, `tallies`, `announcements`,
`bypassing`, `changing`, `audit_log`), and the process that serves HTTP (`api_process`).
"""
