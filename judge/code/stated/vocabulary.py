"""The words of which a statement can be made besides those of the case, in their base forms.

`PLAIN` are words that change no claim: those of grammar, of courtesy, of presenting, and what stands
beside a value. `ALIKE` are rows of words that mean the same where the case has one of them: what was
refunded was also "returned" or "paid back", and where nothing was refunded nobody knows what these
words say. A row of one word is a phrase whose parts are plain and that is not ("turn-up", "next-week").

Words that make another claim of a right one are in neither: of a part ("half"), another time
("tomorrow"), another direction ("out", "back"), a doubt ("allegedly"), a condition ("unless").
"""

# Form -> base form, where the ending does not show it. A word that is its own base has no ending.
FORMS = dict(
    pair.split(":")
    for pair in """
sent:send paid:pay made:make done:do did:do does:do gave:give given:give got:get gotten:get took:take
taken:take went:go gone:go goes:go came:come said:say told:tell wrote:write written:write chose:choose
chosen:choose kept:keep left:leave lost:lose found:find held:hold sold:sell bought:buy brought:bring
lent:lend spent:spend meant:mean met:meet ran:run begun:begin began:begin shown:show withdrew:withdraw
withdrawn:withdraw broke:break broken:break hid:hide hidden:hide rang:ring rung:ring fell:fall fallen:fall
rose:rise risen:rise saw:see seen:see knew:know known:know thought:think taught:teach drove:drive
driven:drive flew:fly flown:fly became:become stood:stand understood:understand sought:seek felt:feel
heard:hear led:lead lain:lie lay:lie stolen:steal stole:steal spelt:spell torn:tear tore:tear used:use
using:use owed:owe owing:owe tried:try tries:try children:child people:person men:man women:woman
fewest:few fewer:few cheapest:cheap cheaper:cheap oldest:old older:old newest:new newer:new highest:high
higher:high dearer:dear longer:long longest:long shorter:short nearest:near larger:large bigger:big
smaller:small easier:easy being:be was:be were:be been:be is:be are:be am:be has:have had:have having:have
shipped:ship shipping:ship added:add adding:add ended:end agreed:agree freed:free dealt:deal forgot:forget
forgotten:forget forbidden:forbid ca:can wo:will sha:shall caught:catch won:win put:put let:let
others:other whose:who them:they us:we fined:fined partly:partly hardly:hardly nearly:nearly lately:lately
barely:barely doing:do shortly:shortly lowered:low lowest:low us:us yours:you theirs:they ours:we hers:she lying:lie
""".split()
)

PLAIN = """
a an the this that these those such same other another each every all both any some either neither none no not
nor one i me my mine myself we us our ourselves you your yourself he him his himself she her herself it its
itself they their themselves who whom which what whatever whichever whoever somebody someone anybody anyone
everybody everyone nobody something anything everything nothing be have can could will would shall should may
might must ought cannot in on at of to from by with for about under over as per via within into onto through
throughout during since until till before after between among beside besides against around near above below
beyond behind without upon towards regarding concerning like unlike than past across along inside outside up
down plus minus nil and or but because so therefore thus hence while whilst whereas though although despite however
also too well ie eg etc namely accordingly otherwise instead then if when whenever where wherever why how whether
once else only just even yet already still again now here there today currently presently meanwhile moment
nowadays anyway first second third fourth fifth last next later latest early earlier earliest always ever ago recent
previous subsequent former latter afterwards beforehand
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand january february march
april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec
st nd rd th monday tuesday wednesday thursday friday saturday sunday am pm noon hour minute day week month year
night morning afternoon evening time date min hr euro eur cent dollar usd pound gbp pence percent pct kg kilo
gram cm mm ml litre metre more most less least few little much many lot enough altogether overall total sum
combine together apiece exact precise simple direct straight proper aside apart alone very quite rather pretty
really indeed certain definite clear course obvious actual full entire complete whole rest own quick brief
hereby long length far lower greater best large small
do yes yeah yep no ok okay right sure great fine good perfect excellent lovely nice happy glad please pleasure
hi hello hey dear sir madam mr mrs ms thank kind regard wish sincerely cheers sorry afraid unfortunate sad regret
apology apologise apologize luck fortunate welcome appreciate grateful understand hope trouble inconvenience
patience bother confuse disappoint safe help assist support question contact feel free anytime hesitate
additional moreover furthermore able allow possible possibility suppose permit option unable
know tell say see look find check note mention show state explain believe think mean ask want need require
prefer try make get give put take go come bring set keep stay remain leave let hold stand become turn use work
happen occur begin start belong include exclude apply relate involve count equal amount comprise consist contain
read seem appear serve result follow speak talk hear learn notice carry continue concern worth call bear save
reach receive remember recall indicate represent depend consider compare concern matter exist provide describe
express obtain identify
out-of come-to amount-to up-to at-least give-out write-down find-out turn-out point-out carry-out sort-out work-out
look-up sort deal deal-with see-to
case request issue thing stuff detail info information fact number nr num reference ref id code name kind type
entry record item line list table row summary outcome status situation action step reason explanation rule
regulation guideline policy term condition value figure unit piece pcs copy pair way place point side part top
section heading page category group series range size level degree basis example sample practice purpose option
choice subject topic word phrase sentence context background chance idea view care attention effort mind hand
person man woman lady gentleman guy girl boy customer client member colleague friend team staff desk office
mother father parent son daughter brother sister wife husband family
account system file data answer reply message inquiry enquiry business company
new old current fresh original present correct relevant respective specific particular different similar
separate single individual several various due usual normal typical regular common standard general main major
important necessary suitable successful immediate automatic careful strict final real official personal
always remember discuss choose pick select suggest recommend advise decide process handle manage review examine
inspect search calculate compute round cite quote refer enter type fill fit suit match sit visit live own grant
exceed require demand qualify entitle eligible span base stem buy purchase order replace add extra arrange plan
responsible responsibility owner attend join especially priority senior junior young aged drive upgrade behalf
set-up sign-up o'clock go-ahead take-on call-for step-in fill-in
available availability schedule submit decide decision pend organise organize reply raise reduce cheap expensive
wait busy fly free-of accompany clarify collect communicate connect define determine discover display draw enable
ensure establish expect face focus form gather guide head highlight improve inquire intend investigate judge last
limit link locate maintain measure observe operate outline perform place possess prepare present produce question
realise recognise reflect specify spot stick study total treat vary wonder inform notify aware register respond
unused empty outbound inbound reissue late unlimited accurate active appropriate basic capable central comfortable
convenient daily detailed difficult eager easy essential extra fair familiar fast flexible formal friendly general
high honest ideal identical initial internal local low narrow natural nearby numerous ordinary overall patient polite
positive practical primary prior reasonable relative reliable remaining sensible serious slight special strong
retain await lack repeat write type attach enclose append summarise summarize alert acknowledge phone ring explore
charge-of ahead-of ahead advance short notice unchanged untouched undisturbed unaffected unlike wherein thereby
thereafter hereafter beforehand likewise similarly conversely respective namely roughly around apiece per
double-check crosscheck tidy sort-of mostly mainly chiefly solely merely purely strictly officially formally
technically basically effectively practically essentially originally initially eventually subsequently consequently
precede predate postdate coincide overlap differ resemble correspond accord comply conform fulfil fulfill satisfy
meet suit entail imply signify denote mark stand-for read-as spell word phrase address greet sign-off
accommodate afford appoint ascertain assure aware bound capable clarify conclude constitute deem designate devote
discover distribute elapse emerge employ encounter encourage endeavour entrust envisage evident examine exceed
expand familiarise feature finalise forward fulfil gain glance grasp grateful guarantee   incur inherit
insist instruct interest interpret introduce invite justify kindly label lead live locate maintain mind miss name
nominate occupy opt opposed overlook overview owe own participate permit persist picture pinpoint plain point-to
position precise  prevail proceed  prompt pursue put-through rank  record regard reiterate
relay rely represent resort respect restrict  reveal seek select separate settle-on shape share shed show-up
single-out span specify split spread stage steer step stipulate structure substantial succeed sufficient suggest
suppose surround tailor tally team term thorough tie top touch-on transpire trust tune underline undertake unite
unusual update urge vary venture  view welcome widen wind  witness yield
sufficient tall unusual upcoming useful valuable wide willing mistake
""".split()

# Words that are understood where they name something, not as verbs ("a crash", and not "it crashed").
NOUNS = """
idea experience story style model form version source role position job duty task work todo rank supervisor
manager boss chief head employee coworker agent assistant teammate teacher instructor trainer driver rider
passenger traveller traveler guest patient borrower buyer shopper caller sender recipient holder author organiser
organizer participant attendee handler reviewer adjuster insurer debtor supplier carrier courier partner neighbour
child kid minor adult age flight plane trip journey route ticket fare seat row aisle window gate airport airline
connection cabin home house street town city country road postcode address location destination origin branch
warehouse depot store shop garage workshop stock inventory building room space slot counter parcel package shipment
box delivery consignment label tracking trace scan invoice bill receipt voucher coupon card discount balance bank
iban phone telephone mobile email mail mailbox inbox letter post rating feedback comment remark thread conversation
chat template text draft photo photograph picture image document paper paperwork folder signature cover coverage
claim excess deductible premium indemnity expense assessment estimate reserve event accident collision incident
storm weather damage fault defect injury illness police fraud vehicle car van truck lorry boat bike bicycle machine
device tool product article goods model colour color brand bag luggage baggage suitcase clothes jacket shell coat
boot shoe shift rota schedule diary calendar appointment meeting session class course lesson membership
subscription tier programme program scheme waitlist queue cost fee tax difference limit maximum minimum max min
cap ceiling threshold authority allowance percentage share proportion permission access right department division
organisation organization agency reminder deadline window period interval repair insurance booking reservation
payment purchase request priority approval travel ability advice aim alternative analysis approach area arrangement
aspect attempt authorisation beginning benefit bottom calculation capacity cause change circumstance classification
clause combination communication comparison complaint concept consequence consideration content contract correction
criteria currency custom definition delay destination direction discussion distance effect element evidence
expectation extent factor field front goal history identity impact importance index interest introduction
investigation language law layout location luck means middle mode nature need news object operation opinion
opportunity outcome overview pattern performance permit perspective phase planning position presence pressure
principle procedure process profile project property provision quality reaction reading recommendation region
register relation relationship requirement resource response restriction sale scale scope selection sense service
setting sheet sign site speed spot stage statement structure success suggestion system target technique term theme
theory title trade training treatment turn understanding use volume weight wording world shopping trailer client
rules wheel pet fuel kitchen garden menu museum library school clinic doctor dentist lab hotel farm food drink
medicine plant tree seed book magazine film lens camera light paint wall roof door pipe water power engine brake tyre
wheelchair surfboard tent stove lantern headlamp backpack daypack mug kettle mat
""".split()

# Rows of verbs of deeds, and of states, that mean the same.
ALIKE = tuple(
    frozenset(row.split())
    for row in """
cancel cancellation stop void call-off scrap withdraw withdrawal revoke annul drop
refund reimburse return credit back money-back pay-back give-back get-back go-back compensate pay
pay payment payout pay-out settle remit transfer never unpaid
charge bill debit deduct pay take
sell sale available
approve approval accept authorise authorize authorisation grant agree ok sanction go-ahead ahead sign-off consent
decline refuse refusal reject deny denial turn-down rule-out turn-away unsuccessful accept
forbid prohibit ban disallow rule-out
escalate escalation pass pass-on refer forward hand hand-over raise
move shift transfer relocate switch reassign reallocate rebook change put-on reschedule bring-forward
assign assignment allocate hand hand-over transfer pass look-after
decide decision judge pend
change update edit modify amend correct correction fix adjust alter touch switch rectify
add enter record log register store insert save
record book log credit
book reserve enrol enrolment secure sign-up
create open raise issue set-up launch initiate generate
issue reissue
request ask-for apply-for submit application
send dispatch ship mail post deliver send-out go-out send-off out
ship deliver delivery dispatch go-out send
deliver delivery arrive arrival receipt turn-up ship
raise increase reduce adjust lower bring
late delay promise overdue turn-up
inform notify notification write message reply answer respond response aware word contact email inbox
answer reply wait respond response
subscribe sign sign-up
close solve resolve complete finish settle resolution
remove removal delete deletion take-off take-away off strike withdraw give-up erase
release give-up free
merge combine fold join consolidate unite
hide invisible visible unpublish take-down
publish live online post visible
swap exchange replacement substitute switch trade change
redirect reroute divert deliver send forward
confirm confirmation verify acknowledge
verify verification validate validation prove proof unverified never
lend loan borrow take-out check-out out
renew renewal extend extension prolong reissue
return bring-back give-back hand-in come-back send-back back
report flag mark label raise log
mark flag carry
schedule book
participate part
teach lead run
cover step-in take-over stand-in fill-in substitute
take-over hand-over succeed successor look-after
swap take-over exchange cover
drive travel fly
sick ill unwell off
absent absence away off leave holiday vacation unavailable out
free available availability unoccupied vacant spare
full book-up book capacity occupy out
take occupy go reserve
busy occupy meet engage shift available
late delay behind-schedule overdue lateness
overdue late outstanding unpaid arrears never pay owe
unpaid pay never outstanding
outstanding owe open pend unpaid miss lack
miss lose lack absent
owe due
expire expiry run-out lapse end valid invalid
valid good expire expiry
faulty fault defective defect damage break tear malfunction crack
repair mend fix
duplicate twice double identical
limit exceed high
cheap inexpensive dear expensive low
increase raise rise high
reduce reduction low decrease discount off
charge complimentary pay gratis
unchanged untouched change touch alter affect
stay change touch alter untouched unchanged affect leave-out
same identical match equal agree
access view edit
phone call ring
spell misspell spelling
available availability
finish over
arrive arrival land get-in
depart departure take-off
promise expect
trace track
redeem redemption
legible illegible readable unreadable
award earn credit
meet pick-up collect
block lock blocked
forgive waive
fly travel
next-week
next-month
next-time
in-part
shut-down
write-off
pay-off
leave-out
give-up
break-down
let-down
turn-up
turn-down
""".strip().splitlines()
)
