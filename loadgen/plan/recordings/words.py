"""The words that prompts are made up of: 256 short English ones.

Each is one token, at a text's beginning and within it, in the public vocabularies it was counted with (cl100k and
o200k of OpenAI, GPT-2's, one of Anthropic's, DeepSeek's); so is a text of them as many tokens as words.
"""

TOKENS_PER_WORD = 1

_WORDS = """
about added all allow almost apple around bear because before being better bird black blue board boat body both
box bridge build building burn bus but call card care cat cause cell cent center chair check child circle city
clean cloud come common complete cool cost country course data day degree design direct dog double down drive
drop during each easy else energy equal event ever eye father feel field fill film find fire fish five flat
floor flow foot front general grand green group guide hair head heart heat her hill him his hit home horse
hospital house inside interest join just key king lake land language lead learn leg less let lie light lot love
low make man many mark match member memory men middle mile nature neck need new news next nice nine nothing
object often one other our over page part party peace perhaps person phone pick picture place plain plan plant
play point post press public pull put quick quite race rain ran rate reach ready real reason red rest rich road
roll row safe say scale sea sell shape share sharp ship should similar simple since sing single skin sky sleep
some sort sound spot stage station store stream string strong subject such take ten term text that the their
then these they thin think third thought time tiny too top total town trade train tree true unit upon value wall
was wash water wave weather week went while who whose why will win woman write wrong yard yes young
"""

WORDS: tuple[str, ...] = tuple(_WORDS.split())
