"""The words that the tiny model knows."""

WORDS = (
    "bell boat bread bridge candle cart cloud coat corn crow dew door drum dust fern field fire fog frost "
    "garden gate glass grain grass hammer hat hill honey horse ice ink iron kettle key kite lamp leaf linen "
    "loom mast meadow mill moon moss mouse needle oak oat owl paper path pear pine plough pond rain reed river "
    "roof rope rose rye sail salt sand seed shell ship shore silk sleet smoke snow spoon spring star stone "
    "storm straw sun swan tar thorn thread tide tower vine wall wave wax well wheat wheel wick wind wing wolf "
    "wool yarn "
).split()
