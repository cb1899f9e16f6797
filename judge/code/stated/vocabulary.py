"""The words of which a statement can be made besides those of the case, in their base forms.

`PLAIN` are words that change no claim: those of grammar, of courtesy and of what stands beside a
value. Those of `FRAME` present an answer ("let me know"), and those of `LINK` relate and last: they
claim nothing alone. The words of `BESIDE` are understood beside words of the case: "the price is
raised", where prices are spoken of, not "they raised hell". `NOUNS` are understood in the same way
where they name something, and not as verbs: "a crash", not "it crashed". `ALIKE` are rows of verbs
of deeds, and of states, that mean the same where the case has one of them: what was refunded was
also "returned" or "paid back", and where nothing was refunded nobody knows what these words say.

`CLAIMS` are words and phrases that make another claim of a right one, of a part ("half"), a time
("tomorrow", "next week"), a direction ("out", "home"): they are understood only where the case has
them itself, and not because a rule has them. All other words are not understood either.

`FORMS` gives base forms where the ending does not show them; a word that is its own base keeps its
ending.
"""

FORMS = """
told:tell sent:send paid:pay made:make done:do did:do does:do gave:give given:give got:get
gotten:get took:take taken:take went:go gone:go goes:go came:come said:say wrote:write
written:write chose:choose chosen:choose kept:keep left:leave lost:lose found:find held:hold
sold:sell bought:buy brought:bring lent:lend spent:spend meant:mean met:meet ran:run begun:begin
began:begin shown:show withdrew:withdraw withdrawn:withdraw broke:break broken:break hid:hide
hidden:hide rang:ring rung:ring fell:fall fallen:fall rose:rise risen:rise saw:see seen:see
knew:know known:know thought:think taught:teach drove:drive driven:drive flew:fly flown:fly
became:become stood:stand understood:understand sought:seek felt:feel heard:hear led:lead lain:lie
lay:lie stolen:steal stole:steal spelt:spell torn:tear tore:tear used:use using:use owed:owe
owing:owe tried:try tries:try children:child people:person men:man women:woman fewest:few fewer:few
cheapest:cheap cheaper:cheap oldest:old older:old newest:new newer:new highest:high higher:high
dearer:dear longer:long longest:long shorter:short nearest:near larger:large bigger:big
smaller:small easier:easy being:be was:be were:be been:be is:be are:be am:be has:have had:have
having:have shipped:ship shipping:ship added:add adding:add ended:end agreed:agree freed:free
dealt:deal forgot:forget forgotten:forget forbidden:forbid ca:can wo:will sha:shall caught:catch
won:win put:put let:let others:other whose:who them:they us:us fined:fined partly:partly
hardly:hardly nearly:nearly lately:lately barely:barely doing:do shortly:shortly lowered:low
lowest:low yours:you previously:previous additionally:additional
goods:goods theirs:they ours:we hers:she lying:lie going:go dying:die tying:tie
"""

PLAIN = """
stay-open remain-open still-open leave-open keep-open a an the this that these those such same other
another each every all both any some either neither none no not nor one i me my mine myself we us
our ourselves you your yourself he him his himself she her herself it its itself they their
themselves who whom which what whatever whichever whoever somebody someone anybody anyone everybody
everyone nobody something anything everything nothing be have can could will would shall should may
might must ought cannot in at of to from by with for about under over as per via within into onto
through throughout during since until till before after between among beside against around near
above below beyond behind without upon towards regarding concerning like unlike than past across
along inside outside up down plus minus nil and or but because so therefore thus hence while whilst
whereas though although despite however also too well eg etc accordingly otherwise instead then if
when whenever where wherever why how whether once else only just even yet already still again now
there today currently presently meanwhile moment nowadays anyway first second third fourth fifth
last next later latest early earlier earliest always ever ago recent previous subsequent former
latter afterwards beforehand zero two three four five six seven eight nine ten eleven twelve
thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty
seventy eighty ninety hundred thousand january february march april june july august september
october november december jan feb mar apr jul aug sep sept oct nov dec st nd rd monday tuesday
wednesday thursday friday saturday sunday pm noon hour minute day week month year night morning
afternoon time date hr euro eur cent dollar usd pound gbp pence percent pct kg kilo gram cm mm ml
litre metre more most less least few little much many lot enough altogether overall total sum
combine together apiece exact precise simple direct straight proper aside apart alone very quite
rather pretty really indeed certain definite clear course obvious actual full entire complete whole
rest own quick brief hereby long length far lower greater best large small do yes yeah yep ok okay
right sure great fine good perfect excellent lovely nice happy glad please pleasure hi hello hey
dear sir madam mr mrs ms thank kind wish sincerely cheers sorry afraid unfortunate sad regret
apology apologise apologize luck fortunate welcome appreciate grateful understand hope trouble
inconvenience patience bother confuse disappoint safe help assist support question contact feel
anytime hesitate additional moreover furthermore able allow possible possibility suppose permit
option unable thereafter likewise roughly chiefly solely merely purely technically basically
effectively eventually consequently accordance accord additionally meantime midnight weekend
elsewhere im ive amongst amid unless couple dozen midday fortnight weekday truly absolutely
literally further beneath nr num o'clock approximate
"""

FRAME = """
know let need want ask assistance look look-up see check double-check find find-out review read
mention explain tell say hear think believe mean expect inform notify aware respond reply answer
message inquiry enquiry inquire information info detail result reason summary follow investigate
examine calculate work-out turn-out point-out point identify reference wonder frustrate frustration
rest-assured shout reachable feel-free clarification clarify sort-out sort deal deal-with see-to
congratulations consider news unclear pardon excuse greet enjoy talk speak remember recap case
request matter interpret learn notice express
"""

LINK = """
get go come stay remain keep leave take put make give hold bring receive man charge-of ahead-of set
fall base owe-to add up-to reach continue retain amount money ahead place available late due short
thing way include contain belong involve relate work fit part personal applicable order number
put-on turn become stand begin start happen occur exist count amount-to equal apply exceed entitle
eligible responsible responsibility depend availability unchanged untouched unaffected idea unused
"""

BESIDE = """
show state require prefer try exclude comprise consist seem appear serve carry continue worth call
bear save recall indicate represent compare provide describe obtain out-of come-to at-least give-out
write-down carry-out issue stuff fact ref id code name type entry item line list table row outcome
status situation action step explanation rule regulation guideline policy term condition value
figure unit piece pcs copy pair side top section heading page category group series range size level
degree basis example sample practice purpose choice subject topic word phrase sentence context
background chance view care attention effort mind hand person woman lady gentleman guy girl boy
customer client member colleague friend team staff desk office mother father parent son daughter
brother sister wife husband family account system file data business company new old fresh original
correct relevant respective specific particular different similar separate single individual several
various usual normal typical regular common standard general main major important necessary suitable
successful immediate automatic careful strict final official discuss choose pick select suggest
recommend advise decide process handle manage inspect search compute round cite quote refer enter
suit match sit visit grant demand qualify span stem buy purchase replace extra arrange plan owner
attend join especially priority senior junior young aged drive upgrade behalf set-up sign-up
go-ahead take-on call-for step-in fill-in schedule submit decision pend organise organize raise
reduce cheap expensive wait busy fly accompany collect communicate connect define determine display
draw enable ensure establish face focus form gather guide highlight improve intend judge limit link
locate maintain measure observe operate outline perform possess prepare produce realise recognise
reflect specify spot stick study treat vary register empty outbound inbound reissue accurate active
appropriate basic capable central comfortable convenient difficult eager easy essential fair
familiar fast flexible formal high honest ideal identical initial internal local low narrow natural
nearby numerous ordinary patient polite positive practical primary prior reasonable relative
reliable sensible serious slight special strong await lack repeat write attach enclose append
summarise summarize alert acknowledge advance tidy precede predate postdate coincide overlap differ
resemble correspond comply conform meet entail imply signify denote mark stand-for read-as spell
address accommodate afford appoint ascertain assure conclude constitute deem designate distribute
employ encourage entrust evident expand familiarise feature guarantee instruct interest invite
justify label miss opt overlook overview owe participate persist pinpoint point-to position proceed
prompt pursue rank reiterate relay rely resort respect restrict reveal seek shape share shed
single-out stage steer stipulate structure substantial succeed sufficient tailor tally thorough tie
trust underline unusual wind witness upcoming useful valuable wide mistake introduce affect pursuant
document criterion remainder associate unaccompanied supply derive database distinct unrelated
specialist requester execute implement lodge completion finalize finalise limitation insufficient
adequate inadequate unwell cooperation travel phone annual online lieu settle-for go-for so-called
ground north south east west upstairs downstairs depart hang-on better body red black white blue
green grey brown yellow orange average hot cold cool modern grow multiple dad mum child children co
ltd rich thick thin new-year
"""

NOUNS = """
record experience story style model version source role job duty task todo supervisor manager boss
coworker agent assistant teammate teacher instructor trainer driver rider passenger traveller
traveler guest borrower buyer shopper caller sender recipient holder author organiser organizer
participant handler reviewer adjuster insurer debtor supplier carrier courier partner neighbour
child kid minor adult age flight trip journey route ticket seat aisle window gate airport airline
connection cabin home house street town city country road postcode location destination origin
branch warehouse depot store shop garage workshop stock inventory building room space slot counter
parcel package shipment box delivery consignment tracking trace scan invoice bill receipt coupon
card balance bank iban telephone mobile email mail mailbox inbox letter post rating feedback remark
thread conversation chat template text draft photo photograph picture image document paper
paperwork folder signature cover coverage claim excess deductible premium indemnity expense
assessment estimate reserve event accident collision incident storm weather damage fault defect
injury illness police fraud vehicle van truck lorry boat bike bicycle machine device tool product
article colour color brand bag luggage baggage suitcase clothes jacket shell coat boot shoe shift
rota diary calendar session class lesson membership subscription tier programme scheme waitlist
queue difference maximum minimum max cap ceiling threshold authority allowance percentage
proportion permission access department division organisation organization agency reminder deadline
period interval repair insurance booking reservation payment approval travel ability advice aim
alternative analysis approach area aspect attempt authorisation benefit bottom calculation capacity
cause change circumstance classification clause combination communication comparison complaint
concept consequence consideration content contract correction criteria currency custom definition
delay direction discussion distance effect element evidence expectation extent factor field front
goal history identity impact importance index introduction investigation language law layout middle
mode nature object operation opinion opportunity pattern performance perspective phase presence
pressure principle procedure profile project property provision quality reaction recommendation
region relation relationship resource response restriction sale scale scope selection sense service
sheet sign speed success suggestion target technique theme theory title trade training volume
weight world trailer wheel pet fuel kitchen garden menu museum library school clinic doctor dentist
lab hotel farm food drink medicine plant tree seed magazine film lens camera light paint wall roof
door pipe water power engine brake tyre wheelchair surfboard tent stove lantern headlamp backpack
daypack mug kettle mat problem hospital voice border network material equipment floor leader
officer solution edition grade method user winner function bridge map breakdown subtotal net gross
team-mate sibling cousin uncle aunt niece nephew grandmother grandfather grandparent baby infant
teenager birthday departure grace crash shelf board surcharge goods force meeting parking shipping
listing setting spelling opening mile movement activity application feature institution community
market station design construction coach professor medication surgery health music sport game party
club team university college council government president director society association committee
church press movie song album
"""

CLAIMS = """
next-monday next-tuesday next-wednesday next-thursday next-friday next-saturday next-sunday
next-week next-month next-time in-part shut-down write-off pay-off leave-out give-up break-down
let-down turn-up turn-down half third double twice triple tomorrow tonight soon never out off back
home away later-on gift exception by-mistake
"""

ALIKE = """
cancel cancellation stop void call-off scrap withdraw withdrawal revoke annul drop
refund reimburse return credit send back money-back pay-back give-back get-back go-back pay
pay payout pay-out settle remit transfer never unpaid go-out
charge bill debit deduct pay fee cost price come-off take-off
free complimentary gratis of-charge no-charge no-cost no-fee extra-charge
price cost sale sell
discount reduction off
free vacant spare unoccupied
home return back
voucher coupon
approve approval accept authorise authorize authorisation sanction sign-off consent
decline refuse refusal reject deny denial turn-down rule-out turn-away unsuccessful accept
forbid prohibit ban disallow rule-out
escalate escalation pass pass-on forward hand-over
move shift transfer relocate switch reassign reallocate rebook change reschedule push postpone
assign allocate hand-over transfer pass look-after
change convert update edit modify amend correct correction fix adjust alter touch switch rectify
record log store insert
record book log credit
book reserve enrol secure
create open launch initiate generate
ask-for apply-for application
ask request ask-for apply-for submit escalate refer pass-on hand-over review decide decision await
ask request escalate pend wait decision
buy purchase order
remind reminder
send dispatch ship mail post deliver send-out go-out send-off
ship deliver delivery dispatch go-out send
deliver delivery arrive arrival receipt turn-up ship
increase adjust
delay promise overdue turn-up
notification response email inbox
subscribe sign
close solve resolve finish settle resolution
remove removal delete deletion take-off take-away off strike withdraw give-up erase
release give-up
merge fold consolidate
hide invisible visible unpublish take-down
publish live post visible
swap exchange substitute switch trade change
redirect reroute divert deliver send forward
confirm confirmation verify
make-sure sure verify confirm
come-off deduct subtract
into-line update adjust change
verify verification validate validation prove proof unverified never
lend loan borrow take-out check-out
defer postpone put-off
resume restart reactivate
renew renewal extend extension prolong
return bring-back give-back hand-in come-back send-back back
report flag log
teach lead run
cover take-over stand-in substitute
take-over hand-over successor look-after
swap take-over exchange cover
sick ill illness unwell off
absent absence away off holiday vacation unavailable out
book-up book capacity occupy
occupy reserve
occupy engage shift roster work
delay behind-schedule overdue lateness
overdue outstanding unpaid arrears never pay
outstanding open unpaid owe
lose absent
expire expiry run-out lapse end valid invalid
faulty fault defective defect damage break tear malfunction crack
repair mend fix
duplicate twice double
increase rise
reduction decrease discount off
change touch alter leave-out
access edit
arrive arrival land get-in
depart trace track
redeem redemption
legible illegible readable unreadable
award earn credit
block lock
forgive waive
"""
