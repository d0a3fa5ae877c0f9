"""The most frequent words of some languages."""

from __future__ import annotations

# Most frequent words first. English words with a mood are spread over the ranks, so that a share
# of the tweets has one.
_WORDS = {
    "en": """the is this what I love and my to great we you it have was bad so happy with they
    terrible today about good never awful people because really hate would nice from morning
    wonderful after their worst friend should sad could beautiful again angry there best which
    boring where amazing weather horrible through everyone excellent something disappointing
    thought fun without ugly before another brilliant always tired""",
    "es": """el que de la los muy está por una con para pero porque cuando siempre hoy mañana
    nosotros también ellos gente amigo casa trabajo quiero hacer tiempo mucho nada todos después
    ahora ciudad noche tarde gracias feliz triste nunca mejor peor bueno malo hermoso calle
    escuela mujer hombre niños agua comida vamos tengo puede desde hasta donde quién días años
    mundo vida""",
    "fr": """le que de la les est une avec pour mais parce quand toujours demain nous
    aussi ils gens ami maison travail je veux faire temps beaucoup rien tous après maintenant
    ville nuit soir merci heureux triste jamais mieux pire bon mauvais belle rue école femme homme
    enfants eau nourriture allons peut depuis jusque où jours années monde vie aujourd'hui être
    leur cette dans""",
    "de": """der die das und ist nicht sehr mit für aber weil wenn immer heute morgen wir auch sie
    Leute Freund Haus Arbeit ich möchte machen Zeit viel nichts alle nach jetzt Stadt Nacht Abend
    danke glücklich traurig niemals besser schlechter gut schön Straße Schule Frau Mann Kinder
    Wasser Essen gehen haben kann seit bis wo wer Tage Jahre Welt Leben werden über""",
    "pt": """o que de a os muito está por uma com para mas porque quando sempre hoje amanhã nós
    também eles gente amigo casa trabalho quero fazer tempo nada todos depois agora cidade noite
    tarde obrigado feliz triste nunca melhor pior bom mau linda rua escola mulher homem crianças
    água comida vamos tenho pode desde até onde quem dias anos mundo vida não são você""",
    "ja": """これ は それ が です の に を と も で ない ある する いる した 今日 明日 昨日 人
    時間 仕事 学校 友達 家 水 食べる 行く 来る 見る 聞く 言う 思う 好き 大きい 小さい 新しい
    良い 悪い 毎日""",
    "ar": """في من على هذا إلى ما لا التي أنا هو مع كان كل هذه الذي نعم أنت هي نحن هم بعد قبل عن
    اليوم غدا أمس الناس صديق بيت عمل ماء طعام وقت مدينة ليل صباح جميل سعيد جديد كبير""",
    "tr": """bir ve bu çok için ne ben var o da ama gibi daha yok sen biz siz onlar bugün akşam dün
    insan arkadaş ev iş su yemek zaman şehir gece sabah güzel mutlu üzgün yeni büyük küçük iyi kötü
    her""",
}


def words(language: str, count: int) -> tuple[str, ...]:
    """The `count` most frequent words of a language, most frequent first."""
    return tuple(_WORDS[language].split()[:count])
