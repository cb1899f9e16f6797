"""Towns of each locale: the places where customers live and to which people drive.

Faker makes up towns that nobody would take for one ("West Jeffreyport", "Thierry"), so that "a trip
to Thierry" reads as a visit to a man.
"""

_TOWNS = {
    "da_DK": "Aalborg Esbjerg Fredericia Haderslev Helsingør Hillerød Holbæk Holstebro Horsens "
    "Køge Kolding Næstved Nyborg Odense Randers Roskilde Silkeborg Skive Slagelse "
    "Sønderborg Svendborg Thisted Vejle Viborg",
    "de_AT": "Amstetten Bludenz Braunau Bregenz Bruck Dornbirn Eisenstadt Feldkirch Graz Hallein "
    "Innsbruck Klagenfurt Krems Kufstein Leoben Lienz Linz Mödling Salzburg Schwechat "
    "Spittal Steyr Villach Wels",
    "de_DE": "Aachen Augsburg Bamberg Bielefeld Braunschweig Celle Cottbus Erfurt Freiburg Fulda "
    "Gera Göttingen Kassel Koblenz Leipzig Lübeck Mainz Münster Oldenburg Passau Potsdam "
    "Rostock Trier Ulm",
    "en_AU": "Albury Ballarat Bathurst Bendigo Bunbury Bundaberg Cairns Dubbo Geelong Geraldton "
    "Gladstone Hobart Launceston Mackay Mildura Newcastle Orange Rockhampton Shepparton "
    "Tamworth Toowoomba Townsville Warrnambool Wodonga",
    "en_CA": "Barrie Brandon Brantford Guelph Halifax Hamilton Kamloops Kelowna Kingston Kitchener "
    "Lethbridge London Moncton Nanaimo Oshawa Peterborough Regina Saskatoon Sudbury "
    "Thorold Truro Vernon Windsor Woodstock",
    "en_GB": "Bath Bedford Carlisle Chester Derby Durham Exeter Gloucester Hereford Ipswich Kendal "
    "Lancaster Leicester Lincoln Northampton Norwich Oxford Plymouth Preston Salisbury "
    "Shrewsbury Swindon Taunton Worcester",
    "en_IE": "Athlone Bray Carlow Castlebar Cavan Clonmel Drogheda Dundalk Ennis Galway Kildare "
    "Kilkenny Killarney Letterkenny Limerick Longford Mallow Mullingar Naas Navan "
    "Portlaoise Sligo Tralee Waterford",
    "en_US": "Albany Bakersfield Boise Bridgeport Dayton Dubuque Fargo Flint Fresno Lansing "
    "Lincoln Macon Mobile Omaha Peoria Pueblo Racine Reno Rockford Salem Scranton Spokane "
    "Toledo Tulsa",
    "es_ES": "Albacete Almería Badajoz Burgos Cáceres Castellón Córdoba Cuenca Gijón Girona "
    "Granada Huelva Huesca Jaén Lleida Logroño Lugo Ourense Oviedo Salamanca Segovia "
    "Toledo Valladolid Zamora",
    "fi_FI": "Espoo Hämeenlinna Hyvinkää Iisalmi Imatra Joensuu Jyväskylä Kajaani Kemi Kokkola "
    "Kotka Kouvola Kuopio Lahti Lappeenranta Mikkeli Oulu Pori Porvoo Rauma Rovaniemi "
    "Salo Tampere Vaasa",
    "fr_FR": "Amiens Angers Annecy Auxerre Bayonne Besançon Blois Bourges Caen Chartres Dijon "
    "Épinal Grenoble Laval Limoges Lorient Nevers Nîmes Orléans Poitiers Quimper Reims "
    "Troyes Valence",
    "it_IT": "Ancona Arezzo Asti Bergamo Brescia Cremona Cuneo Ferrara Foggia Forlì Grosseto Lecce "
    "Lecco Lucca Mantova Modena Novara Parma Pavia Pesaro Piacenza Rimini Trento Udine",
    "nl_NL": "Alkmaar Almelo Amersfoort Apeldoorn Arnhem Assen Breda Delft Deventer Dordrecht Ede "
    "Eindhoven Emmen Enschede Gouda Groningen Haarlem Helmond Leiden Roermond Tilburg "
    "Venlo Zutphen Zwolle",
}


def towns_of(locale: str) -> tuple[str, ...]:
    """The towns of a locale such as "en_GB". Raises KeyError for one that has none."""
    return tuple(_TOWNS[locale].split())
