"""How people speak of what a case needs."""

# A trade -> cases: the subject, what must be got for it, and who is paid for that.
CASES = {
    "charity": (
        ("Family without heating", "an electric heater for two weeks", "The hire shop"),
        ("Move to a smaller flat", "a van for the move", "The hire firm"),
        ("School costs of three children", "second-hand school uniforms", "The shop"),
    ),
    "credit_union": (
        ("Guarantee for a family loan", "a credit report on the guarantor", "The bureau"),
        ("Hardship on a car loan", "a valuation of the car", "The garage"),
    ),
    "insurance_broker": (
        ("Water damage in the kitchen", "a plumber's report", "The plumber"),
        ("Rear-end collision", "a copy of the police report", "The police department"),
        ("Hail on the roof", "a written estimate from a roofer", "The roofer"),
        ("Fire in the workshop", "the fire department's report", "The fire department"),
    ),
    "law_office": (
        ("Boundary dispute with a neighbour", "an extract from the land registry", "The registry"),
        ("Unfair dismissal", "a translation of the employment contract", "The translator"),
        ("Contested will", "a certified copy of the will", "The court"),
        ("Unpaid builder's invoice", "an estimate from another builder", "The builder"),
    ),
    "permits_office": (
        ("Protected facade", "copies of the old drawings", "The city archive"),
        (
            "House extension without neighbours' consent",
            "an extract from the land register",
            "The registry",
        ),
    ),
    "property_management": (
        ("Noise between two flats", "a noise measurement", "The technician"),
        ("Water damage from above", "a plumber's report", "The plumber"),
        ("Dispute over the heating bill", "a check of the heat meter", "The meter firm"),
    ),
}
